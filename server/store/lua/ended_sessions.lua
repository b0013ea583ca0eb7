-- Changes the mark of a session that an operator has ended, and returns all marks. A separate script, because it concerns no
-- lock.
--
-- KEYS  a hash: session id -> until when the mark is kept (ms), and how many sessions, holds and waiters coordinators have ended
--       because of it (cmsgpack); expires
-- ARGV  nothing, to look; or session id, the time to keep its mark (ms; 0 to change a mark only if there is one), and how many
--       sessions, holds and waiters to add
-- Reply {1, or 0 if there is no room for another mark, {session id, sessions, holds, waiters}, …}

local MOST = 1000 -- marks; ended.rs has the same number

local key, session, lasts = KEYS[1], ARGV[1], tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found, marks, gone, number, last = redis.call('HGETALL', key), {}, {}, 0, 0
for i = 1, #found, 2 do
  local mark = cmsgpack.unpack(found[i + 1])
  if mark[1] > now then
    marks[found[i]] = mark
    number, last = number + 1, math.max(last, mark[1])
  else
    gone[#gone + 1] = found[i]
  end
end
-- Before the change, which may mark one of them anew.
if gone[1] then redis.call('HDEL', key, unpack(gone)) end
if session and (marks[session] or lasts > 0) then
  local mark = marks[session]
  if not mark then
    if number >= MOST then return { 0 } end
    mark = { 0, 0, 0, 0 }
  end
  mark[1] = math.max(mark[1], lasts > 0 and now + lasts or 0)
  for i = 2, 4 do mark[i] = mark[i] + tonumber(ARGV[i + 1]) end
  -- After a write that changes nothing and takes no memory, Redis lets this one pass while its memory is full: so sessions that
  -- fill it can be ended.
  redis.call('HDEL', key, '')
  redis.call('HSET', key, session, cmsgpack.pack(mark))
  marks[session], last = mark, math.max(last, mark[1])
  redis.call('PEXPIREAT', key, string.format('%.0f', last))
end
local told = { 1 }
for id, mark in pairs(marks) do told[#told + 1] = { id, mark[2], mark[3], mark[4] } end
return told
