-- Takes the lock from its holder.
--
-- KEYS  lock, record, others
-- ARGV  coordinator id
-- Reply DONE, 1 if it was held, the newest token or 0, owner id and coordinator of our former hold or empty

local me = ARGV[3]
local holder, found = call('GET', lock), call('GET', record)
local former, coordinator = '', ''
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
