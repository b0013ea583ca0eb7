-- Takes the lock from its holder, or only from the one of a token.
--
-- KEYS  lock, record, others
-- ARGV  coordinator id, the token of the only holder that is meant (0: any)
-- Reply DONE, 1 if it was held, the newest token or 0, owner id and coordinator of our former hold or empty

local me = ARGV[3]
local only = tonumber(ARGV[4])
local holder, found = call('GET', lock), call('GET', record)
local former, coordinator = '', ''
if holder and only > 0 and not (is_of(found, holder) and token_of(found) == only) then holder = false end
if holder then
  if is_of(found, holder) then
    former = holder
    local _, _, of = read_details(found)
    coordinator = of
  end
  call('DEL', lock)
  if coordinator ~= '' and coordinator ~= me then
    try('PUBLISH', 'lh:wake:' .. coordinator, 'F' .. former .. lock)
  end
  wake(me)
end
return answer(DONE, holder and 1 or 0, token_of(found), former, coordinator)
