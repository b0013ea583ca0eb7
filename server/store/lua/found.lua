-- The hold of an owner id, to look at and to change.

local NO_ACTOR = ('\0'):rep(8)
local MOST_REPLACED = 128 -- void owner ids that are remembered of a name; replaced.rs has the same

-- Returns the hold, false without one.
local function find(owner)
  if many then return many.get(owner) end
  return holder == owner and record_of(owner)
end

-- Replaces the record of a hold that was found.
local function keep(owner, found)
  if many then return many.put(owner, found) end
  call('SET', record, found, 'KEEPTTL')
end

-- Remembers that an owner id is void (see void_of). A bounded number of them is remembered, and none while Redis is out of
-- memory: they only tell a former owner what has become of its hold or place.
local function remember_void(member)
  if full then return end
  local key = replaced()
  call('ZREMRANGEBYSCORE', key, '-inf', now)
  call('ZADD', key, now + memory * 1000, member)
  call('ZREMRANGEBYRANK', key, '0', -MOST_REPLACED - 1)
  -- Callers may remember them for different times: the key is kept for the longest.
  local last = call('ZREVRANGE', key, '0', '0', 'WITHSCORES')
  call('PEXPIREAT', key, math.ceil(last[2] / 1000))
end

-- Returns its remaining time (ms, rounded up).
local function left(owner)
  return many and math.ceil(many.left(owner)) or call('PTTL', lock)
end

-- Returns the same hold with other extras: its mode if another is given, and how many times it is held.
local function with_extras(found, mode, times)
  local _, _, _, _, extras = read_details(found, DETAILS)
  local now_mode, permits, limit, actor, now_times = 'x', 0, 0, NO_ACTOR, 1
  if extras ~= '' then now_mode, permits, limit, actor, now_times = unpack_bytes('>c1I4I4c8I4', extras) end
  -- Behind them are the bound and the revision, if there are any.
  return with(found, nil, nil, pack('>c1I4I4c8I4', mode or now_mode, permits, limit, actor, times or now_times)
    .. extras:sub(22))
end
