-- Holders of the present lock, one or many (see many.lua), and whether more fit.

local many_made -- its functions, once there are any

-- Reads the lock; `found` is its value if known. Drops expired holds of many.
local function look(found)
  many = nil
  holder = found or call('GET', lock)
  if holder == MANY then
    many_made = many_made or many_functions()
    many_made.load()
  end
end

-- Strips value and client name from an expired hold, which stays for its lock-delay.
local function put_anonymous(owner, found)
  local kept = anonymous(found)
  if #kept == #found then return end
  allow_when_full()
  if many then return many.put(owner, kept) end
  call('SET', record, kept, 'KEEPTTL')
end

-- Returns whether no more than its lock-delay is left of a hold. Then reports it as lost, and strips it.
local function has_run_out(owner, found)
  local state, delay = read_details(found, DETAILS)
  if delay == 0 or not is_confirmed(state) then return false end
  local left = many and many.left(owner) or call('PTTL', lock)
  if left < 0 or left > delay then return false end
  note('lost', view_hold(found, 0), EXPIRED)
  put_anonymous(owner, found)
  return true
end

-- Returns whether one more hold in this mode fits, which needs this many permits.
local function fits(mode, permits)
  if many then return many.fits(mode, permits) end
  return not holder
end

-- Grants the lock to an owner id that fits, for `lasts` ms (text), or for the claim time if it waits elsewhere. Permits come
-- with the limit in force and its revision, of which as many are granted as are free and asked for. Returns the token, and the
-- number of permits if the request left it to the store, or 0; `last` is the previous token that this operation has minted.
local function grant(owner, lasts, details, coordinator, mode, limit, revision, is_handed, last)
  local state = 'c'
  if coordinator ~= me then state, lasts = 'h', CLAIM end
  if mode == 'x' then
    if state == 'h' then details = 'h' .. details:sub(2) end
    local minted = mint(owner .. details, last)
    call('SET', lock, owner, 'PX', lasts)
    holder = owner
    if changes then
      note('granted', view_hold(pack('>I8I8', minted, now) .. owner .. details, tonumber(lasts)))
    end
    return minted, 0
  end
  local minted = mint('', last)
  if mode == 'p' then
    local _, _, permits, asked, of = read_request(details, coordinator)
    local number = math.min(permits, limit - (many and many.permits_taken() or 0))
    if number ~= permits or asked ~= limit or of ~= revision then
      details = with_permits(details, coordinator, number, limit, revision)
    end
  end
  if not many then
    many_made = many_made or many_functions()
    many_made.begin(mode, limit or 0, revision or 0)
  end
  if is_handed then state = state:upper() end
  local found = pack('>I8I8', minted, now) .. owner .. state .. details:sub(2)
  many.add(owner, found, now + lasts * 1000)
  if changes then note('granted', view_hold(found, tonumber(lasts))) end
  return minted, permits_left(found)
end

-- Returns the holders, those that end first before others, at most this many: {'foreign', ms left}, or view_hold's result
-- for each.
local function view_holders(most)
  local shown = {}
  if many then
    for i, hold in ipairs(many.first(most)) do shown[i] = view_hold(hold[2], hold[3]) end
  elseif holder and holder ~= CLOSED then
    local left, found = call('PTTL', lock), record_of(holder)
    shown[1] = found and view_hold(found, left) or { 'foreign', left }
  end
  return shown
end
