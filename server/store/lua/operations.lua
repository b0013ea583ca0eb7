-- Part after all operations: returns the functions that execute them.

-- Functions of most letters; the others are made when needed.
local operations = { a = acquire, w = acquire, A = acquire, W = acquire, n = renew, r = release, u = release }
local few_keys = { n = true, v = true, k = true }
local only_look = { s = true, e = true, o = true, q = true }

-- Returns the number of waiters after the present operation, false if it has only two keys.
local function waiter_count()
  if few_keys[letter] then return false end
  if not is_loaded then load_queue() end
  return count()
end

-- Reports its changes, and its view. This never makes it fail.
local function tell()
  local has_changed = changes and changes[1]
  if not has_changed and not looked then return end
  if late then return watch.tell({ { 'doubtful' } }, false) end
  local is_known, waiting = pcall(waiter_count)
  waiting = is_known and waiting
  if has_changed then watch.tell(changes, waiting) end
  return looked and watch.show(looked, waiting)
end

-- Executes an operation on the present keys, and catches its error. If it fails, the changes that it made before are still
-- reported.
local function carry_out(of, ...)
  letter, many, is_loaded, looked = of, nil, false, nil
  changes = watch and watch.follows(lock) and {} or nil
  if not operations[of] then
    local made = only_look[of] and views() or others()
    for other, operation in pairs(made) do operations[other] = operation end
  end
  local done, reply = pcall(operations[letter], ...)
  if many then
    local settled, problem = pcall(many.settle)
    if done and not settled then done, reply = false, problem end
  end
  local is_heard = watch and tell()
  if reply == LOOKED and not is_heard then reply = UNHEARD end
  if done then return reply end
  return { err = type(reply) == 'table' and reply.err or reply }
end

-- Executes the operations that could not be done together, in order.
local function rest(letters, replies, key, at)
  -- letter → how many arguments it has in ARGV, whether it may come late
  local arguments = { a = 3, w = 3, A = 3, W = 3, n = 3, r = 1, u = 1, f = 1, d = 1, p = 2, m = 3, x = 0, y = 2, v = 2, k = 2, s = 2,
    e = 0, o = 1, q = 2 }
  local never_late = { r = true, u = true, s = true, e = true }
  for i = 1, #letters do
    if letters:byte(i) == 46 then
      if ARGV[at] == 'c' then
        set_caller(ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4])
        at = at + 5
      end
      local of = ARGV[at]
      lock, record = KEYS[key + 1], KEYS[key + 2]
      queue, waiters = KEYS[key + 3], KEYS[key + 4]
      replies[i + 2] = late and not never_late[of] and LATE or carry_out(of, unpack(ARGV, at + 1, at + arguments[of]))
      key = key + (few_keys[of] and 2 or 4)
      at = at + 1 + arguments[of]
    end
  end
end

return { carry_out, rest }
