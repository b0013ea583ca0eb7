-- Limit of a semaphore: which of several is in force. A limit of a greater revision replaces it, one of a smaller revision
-- gives way, and limits of the same revision must agree.
--
-- Holders and waiters have the limit in force in their states (see many.lua and queue.lua). One with a revision is also in the
-- key 'limit', its 4 bytes and the 4 of the revision, for as long as a token would be remembered from the last acquire, renewal
-- or resume of permits on: so it outlasts them, and an acquire without a revision that finds nobody there does not bring the
-- former limit back.

local OTHER_LIMIT = 7

-- Returns the limit that is remembered and its revision, nil without one.
local function remembered_limit()
  -- The key may have moved to another node.
  check_settled()
  local found = call('GET', limit_key())
  if found and #found == 8 then return unpack_bytes('>I4I4', found) end
end

-- Returns the limit in force for an acquire that names this one and needs these permits, and its revision; or false and a
-- refusal, and changes nothing then.
local function settle_limit(permits, limit, revision)
  local in_use, revision_in_force = limit_in_use()
  local in_force = in_use
  if not in_force then in_force, revision_in_force = remembered_limit() end
  if in_force and revision_in_force > revision then
    limit, revision = in_force, revision_in_force
  elseif in_force and revision_in_force == revision and in_force ~= limit then
    return false, { false, OTHER_LIMIT, in_force, revision_in_force }
  end
  if permits > limit then return false, { false, OTHER_LIMIT, limit, revision } end

  if revision > 0 then call('SET', limit_key(), pack('>I4I4', limit, revision), 'PX', memory) end
  if in_use and (in_use ~= limit or revision_in_force ~= revision) then
    if many and many.mode() == 'p' then many.set_limit(limit, revision) end
    if queue_limit then
      queue_limit, queue_revision = limit, revision
      save_state()
    end
    note('limit', limit, revision)
  end
  return limit, revision
end

-- Makes the limit one that every revision replaces, and forgets it once nobody holds or waits. Memory may be full.
local function forget_revision()
  -- While the slot is being moved to another node, the key may be there: it is remembered then.
  redis.pcall('DEL', limit_key())
  if queue_limit and queue_revision > 0 then
    queue_revision = 0
    allow_when_full()
    save_state()
  end
end
