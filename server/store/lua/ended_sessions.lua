-- Changes the mark of a session that an operator has ended, and returns all marks. A separate script, because it concerns no
-- lock.
--
-- KEYS  a hash: mark -> until when it is kept (ms), and how many sessions, holds and waiters coordinators have ended because of
--       it, and how many sessions they were not allowed to end (cmsgpack); expires. A mark is a session id, 16 bytes, and the
--       caller that ends the session.
-- ARGV  nothing, to look; or a mark, the time to keep it (ms; 0 to change a mark only if there is one; below 0 to keep it no
--       longer than for so long), and how many sessions, holds, waiters and denied sessions to add
-- Reply {1, or 0 if there is no room for another mark, {mark, sessions, holds, waiters, denied sessions}, …}

local MOST, MOST_BY_ONE = 1000, 100 -- marks; ended.rs has the same numbers
local BY = 17 -- where the caller begins in a mark

local key, changed, lasts = KEYS[1], ARGV[1], tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found, marks, gone, number, last = redis.call('HGETALL', key), {}, {}, 0, 0
local by, number_by_one = changed and changed:sub(BY), 0
for i = 1, #found, 2 do
  local mark = cmsgpack.unpack(found[i + 1])
  if mark[1] > now then
    marks[found[i]] = mark
    number, last = number + 1, math.max(last, mark[1])
    if found[i]:sub(BY) == by then number_by_one = number_by_one + 1 end
  else
    gone[#gone + 1] = found[i]
  end
end
-- Before the change, which may mark one of them anew.
if gone[1] then redis.call('HDEL', key, unpack(gone)) end
if changed and (marks[changed] or lasts > 0) then
  local mark = marks[changed]
  if not mark then
    if number >= MOST or number_by_one >= MOST_BY_ONE then return { 0 } end
    mark = { 0, 0, 0, 0, 0 }
  end
  if lasts < 0 then
    mark[1] = math.min(mark[1], now - lasts)
  else
    mark[1] = math.max(mark[1], lasts > 0 and now + lasts or 0)
  end
  for i = 2, 5 do mark[i] = mark[i] + tonumber(ARGV[i + 1]) end
  -- After a write that changes nothing and takes no memory, Redis lets this one pass while its memory is full: so sessions that
  -- fill it can be ended.
  redis.call('HDEL', key, '')
  redis.call('HSET', key, changed, cmsgpack.pack(mark))
  marks[changed], last = mark, math.max(last, mark[1])
  redis.call('PEXPIREAT', key, string.format('%.0f', last))
end
local told = { 1 }
for id, mark in pairs(marks) do told[#told + 1] = { id, mark[2], mark[3], mark[4], mark[5] } end
return told
