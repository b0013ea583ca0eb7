-- Comes after every operation: carries them out.

local replies = { tonumber(ARGV[1]), now }
local key, at = 0, 2
while at <= #ARGV do
  local operation = operations[ARGV[at]]
  me, floor, memory = ARGV[at + 1], tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  lock, hold, token = KEYS[key + 1], KEYS[key + 2], KEYS[key + 3]
  queue, waiters, attached = KEYS[key + 4], KEYS[key + 5], KEYS[key + 6]
  refreshed = nil
  local not_after = tonumber(ARGV[at + 4])
  if operation[3] and not_after > 0 and now > not_after then
    replies[#replies + 1] = { false, 'late' }
  else
    local done, reply = pcall(operation[4], at + 5)
    if not done then reply = { err = type(reply) == 'table' and reply.err or reply } end
    replies[#replies + 1] = reply
  end
  key = key + operation[1]
  at = at + 5 + operation[2]
end
return replies
