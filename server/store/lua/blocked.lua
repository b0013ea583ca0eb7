-- Publishes the blocked waits of a coordinator, and returns the recent publications of all coordinators. Sends only changes,
-- in both directions. A separate script, because it concerns no lock.
--
-- KEYS  a hash: `seen` -> for each coordinator when it called last (µs) and the version of what it published (cmsgpack);
--       `of ID` -> what coordinator ID published; expires
-- ARGV  coordinator id; the version of what it publishes, 0 for nothing; the publication, empty if it is unchanged; then for
--       each publication that the caller has: coordinator id, version
-- Reply {1, or 0 if the caller has to send its publication again,
--       {coordinator id, version, the publication or false if the caller has it, as it has its own}, ...}

local LATELY = 3000000    -- µs for which a publication counts: a coordinator that still waits calls again before that
local KEPT_FOR = '10000'  -- ms

local blocked, me, version, mine = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local packed = redis.call('HGET', blocked, 'seen')
local seen, gone = packed and cmsgpack.unpack(packed) or {}, {}
local is_known = version == 0 or mine ~= '' or (seen[me] and seen[me][2] == version)
if is_known and version > 0 then
  seen[me] = { now, version }
elseif seen[me] then
  seen[me] = nil
  gone[1] = 'of ' .. me
end
for id, of in pairs(seen) do
  if math.abs(now - of[1]) >= LATELY then
    seen[id] = nil
    gone[#gone + 1] = 'of ' .. id
  end
end
if next(seen) == nil then
  if packed then redis.call('DEL', blocked) end
else
  -- First, because Redis refuses it when its memory is full.
  if mine ~= '' then
    redis.call('HSET', blocked, 'seen', cmsgpack.pack(seen), 'of ' .. me, mine)
  else
    redis.call('HSET', blocked, 'seen', cmsgpack.pack(seen))
  end
  if gone[1] then redis.call('HDEL', blocked, unpack(gone)) end
  redis.call('PEXPIRE', blocked, KEPT_FOR)
end
local known = {}
for i = 4, #ARGV, 2 do known[ARGV[i]] = tonumber(ARGV[i + 1]) end
local told = { is_known and 1 or 0 }
for id, of in pairs(seen) do
  local is_new = id ~= me and known[id] ~= of[2]
  told[#told + 1] = { id, of[2], is_new and redis.call('HGET', blocked, 'of ' .. id) or false }
end
return told
