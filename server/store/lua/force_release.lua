-- Takes the lock from all its holders, or from one, and raises the token, or removes one waiter; then hands the lock on. If it
-- takes it from all, the revision of a semaphore's limit is forgotten.
--
-- KEYS  all four
-- ARGV  x for all holders; y for one: h and its token, or w and the place of a waiter
-- Reply {handed, 5, 1 if anything was released, token now, {{owner id, coordinator}, …} of our former holds, or of the former
--       waiter, unordered}

local FORCED = 5
local LARGEST = 0x20000000000000 -- no token and no place is as large: Lua's numbers are exact below it

-- Returns our holds, unordered.
local function all_holds()
  local found = many and many.all() or {}
  if holder and not many then found[1] = record_of(holder) or nil end
  return found
end

-- Hands the lock on, and returns the reply.
local function forced(is_released, former)
  local handed = hand_on()
  return { handed, FORCED, is_released and 1 or 0, token_of(call('GET', record)), former }
end

local function force_release()
  load_queue()
  if attached then check_settled() end
  look()
  forget_revision()
  local found = all_holds()
  local former = {}
  for i, hold in ipairs(found) do
    local owner = hold:sub(17, 32)
    local _, _, coordinator = read_details(hold, DETAILS)
    former[i] = { owner, coordinator }
    if coordinator ~= me then tell_owner(coordinator, 'F' .. owner .. lock) end
  end
  local is_taken = holder
  if is_taken then
    if many then many.drop() else call('DEL', lock) end
    holder = false
    if changes then
      table.sort(found, function(a, b) return token_of(a) < token_of(b) end)
      for _, hold in ipairs(found) do note('forced', view_hold(hold, 0)) end
      if not found[1] then note('forced', false) end
    end
    mint('')
  end
  return forced(is_taken, former)
end

-- Takes away the hold of a token. Returns its owner id and coordinator, nil if there is none.
local function force_holder(token)
  local found = false
  for _, hold in ipairs(all_holds()) do
    if token_of(hold) == token then found = hold end
  end
  if not found then return end
  local owner = found:sub(17, 32)
  local _, _, coordinator = read_details(found, DETAILS)
  if many then
    many.remove(owner, found, 0)
  else
    call('DEL', lock)
    holder = false
  end
  if changes then note('forced holder', view_hold(found, 0)) end
  if coordinator ~= me then tell_owner(coordinator, 'F' .. owner .. lock) end
  -- Above that hold's own token only, so that the newest of several holders is not outdated by the end of another.
  if token_of(call('GET', record)) <= token then mint('') end
  return owner, coordinator
end

-- Removes the waiter of a place. Returns its owner id and coordinator, nil if there is none.
local function force_waiter(place)
  for coordinator in pairs(attached or {}) do
    local member = call('ZRANGEBYLEX', queue, '[' .. from(coordinator, place), '(' .. from(coordinator, place + 1), 'LIMIT',
      '0', '1')[1]
    local owner = member and member:sub(-16)
    if owner and withdraw(owner, 'forced waiter') then
      if coordinator ~= me then tell_owner(coordinator, 'Q' .. owner .. lock) end
      -- Its coordinator may have it join again before it has heard of this.
      remember_void(owner .. 'f')
      return owner, coordinator
    end
  end
end

local function force_release_one(kind, number)
  load_queue()
  if attached then check_settled() end
  look()
  number = tonumber(number)
  local owner, coordinator
  if number < LARGEST then
    owner, coordinator = (kind == 'h' and force_holder or force_waiter)(number)
  end
  return forced(owner, owner and { { owner, coordinator } } or {})
end
