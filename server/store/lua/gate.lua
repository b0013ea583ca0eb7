-- Gate before the functions of watch.lua. A feed subscribes to the gate as a channel and as a pattern: while Redis has no
-- subscriber of any pattern, the first question is the whole cost of watching, and takes half the time of the second. If
-- the user may not ask these questions, no feed can follow locks.

local ask = redis.pcall
local is_watched = ask('PUBSUB', 'NUMPAT') ~= 0 and (ask('PUBSUB', 'NUMSUB', GATE)[2] or 0) > 0
