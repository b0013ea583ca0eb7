-- Extends a hold, or confirms a hand-off. Never creates a key.
--
-- KEYS  lock, record: only keys that exist while it is held
-- ARGV  n: owner id, TTL (ms; the hold's lock-delay is added), token (8 bytes, or none)
-- Reply RENEWED | DELETED | TAKEN (also by a later grant of the same owner id, or if the record that tells was deleted) | EXPIRED (no
--       more than the lock-delay was left) | RESUMED

local function renew(owner, ttl, token)
  look()
  local found = many and many.get(owner)
  if not found and holder ~= owner then
    if void_of(owner) then return RESUMED end
    strip(owner)
    local loss = holder and TAKEN or DELETED
    note('lost', false, loss)
    return loss
  end
  -- If the hold has expired, it does no harm to remember the token for longer.
  local newest_one = remember()
  -- The lock is the owner's; the record may be missing.
  if not many then found = newest_one and newest_one:sub(17, 32) == owner and newest_one end
  if token ~= '' and (not found or found:sub(1, 8) ~= token) then
    note('lost', false, TAKEN)
    return TAKEN
  end
  if not found then
    call('PEXPIRE', lock, ttl)
    return RENEWED
  end
  if has_run_out(owner, found) then return EXPIRED end
  local state, delay, coordinator = read_details(found, DETAILS)
  local ends_in = ttl + delay
  local is_shorter = changes and (many and many.left(owner) or call('PTTL', lock)) > ends_in + UNNOTICED
  if many then
    many.extend(owner, found, ends_in)
  else
    call('PEXPIRE', lock, ends_in)
    if state ~= 'c' or coordinator ~= me then call('SET', record, with(found, 'c', me), 'KEEPTTL') end
  end
  if is_shorter then note('shortened', view_hold(with(found, 'c', me), ends_in)) end
  return RENEWED
end
