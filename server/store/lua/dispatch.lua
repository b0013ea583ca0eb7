-- Comes after every operation: carries them out.

local replies = { tonumber(ARGV[1]), now }
local key, at = 0, 2
while at <= #ARGV do
  local operation = operations[ARGV[at]]
  me, floor, memory = ARGV[at + 1], tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  lock, hold, token = KEYS[key + 1], KEYS[key + 2], KEYS[key + 3]
  queue, waiters, attached = KEYS[key + 4], KEYS[key + 5], KEYS[key + 6]
  refreshed = nil
  local done, reply = pcall(operation[3], at + 4)
  if not done then reply = { err = type(reply) == 'table' and reply.err or reply } end
  replies[#replies + 1] = reply
  key = key + operation[1]
  at = at + 4 + operation[2]
end
return replies
