-- Asks the sessions that hold a lock, or one of them, to release it. Changes nothing.
--
-- KEYS  all four
-- ARGV  q: the token of the one hold that is meant, 0 for all; the request: its id, the ms that it leaves (0: any), 8 bytes
--       each, and the reason after its length, 2 bytes
-- Reply {false, 11, {{owner id, coordinator, token}, …} of the holds, unordered}

local ASKED = 11

local function request_release(only, request)
  only = tonumber(only)
  look()
  local found = many and many.all() or {}
  if holder and not many then found[1] = record_of(holder) or nil end
  if changes then
    table.sort(found, function(a, b) return token_of(a) < token_of(b) end)
  end
  local asked = {}
  for _, hold in ipairs(found) do
    local owner = hold:sub(17, 32)
    local _, _, coordinator, session = read_details(hold, DETAILS)
    if session ~= '' and (only == 0 or token_of(hold) == only) then
      asked[#asked + 1] = { owner, coordinator, token_of(hold) }
      if changes then
        local left = many and math.ceil(many.left(owner)) or call('PTTL', lock)
        note('requested', view_hold(hold, left))
      end
      if coordinator ~= me then tell_owner(coordinator, 'A' .. owner .. hold:sub(1, 8) .. request .. lock) end
    end
  end
  return { false, ASKED, asked }
end
