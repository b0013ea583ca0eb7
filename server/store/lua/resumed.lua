-- Rules of a resume that one server and independent masters share.

local SESSIONS_KEPT = 64 -- bytes: of the session and its predecessors; id.rs has the same number

-- Returns whether a hold, or the record of one, with these extras has been held for as long as it may: see hold.lua.
local function is_bound_over(found, extras)
  local max_hold = #extras >= 29 and unpack_bytes('>I8', extras, 22) or 0
  return max_hold > 0 and unpack_bytes('>I8', found, 9) + max_hold * 1000 <= now
end

-- Returns extras with the smaller one of their bound and another (ms, 0: none).
local function with_bound(extras, bound)
  local known = #extras >= 29 and unpack_bytes('>I8', extras, 22) or 0
  if bound == 0 or known > 0 and known <= bound then return extras end
  if extras == '' then extras = pack('>c1I4I4c8I4', 'x', 0, 0, ('\0'):rep(8), 1) end
  return extras:sub(1, 21) .. pack('>I8', bound) .. extras:sub(30)
end

-- Returns the session that resumes, before those that had it so far; none for a unary call. A repeated resume changes nothing.
-- If Redis is out of memory, the result is no longer than what was there.
local function resumed_by(session, sessions, full)
  if session == '' then return '' end
  if sessions:sub(1, 16) == session then return sessions end
  return (session .. sessions):sub(1, full and math.max(#sessions, 16) or SESSIONS_KEPT)
end
