-- Comes before what makes the functions of watch.lua. A feed listens to the gate as a channel and as a pattern: while
-- nobody listens to any pattern, the first question is all that watching costs, and it is answered in half the time of
-- the second. Where they may not be asked, nobody can follow locks.

local ask = redis.pcall
local is_watched = ask('PUBSUB', 'NUMPAT') ~= 0 and (ask('PUBSUB', 'NUMSUB', GATE)[2] or 0) > 0
