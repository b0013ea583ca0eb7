-- Comes after every operation: gives the function for each letter.

local operations = {
  a = function(owner, lasts, details) return acquire(owner, lasts, details, false) end,
  w = function(owner, lasts, details) return acquire(owner, lasts, details, true) end,
  n = renew,
  r = function(owner, holder) return release(owner, false, holder) end,
  u = function(owner) return release(owner, true, false) end,
  f = refresh,
  x = force_release,
  v = set_value,
  s = view,
}
-- letter → how many arguments it has in ARGV, whether it has but the first two keys, whether it may come late
local arguments = { a = 3, w = 3, n = 2, r = 1, u = 1, f = 1, x = 0, v = 2, s = 1 }
local few_keys = { n = true, v = true }
local never_late = { r = true, u = true, s = true }

-- Carries an operation out, on the keys that were set, whatever it comes to.
local function carry_out(letter, ...)
  if late and not never_late[letter] then return LATE end
  local done, reply = pcall(operations[letter], ...)
  if done then return reply end
  return { err = type(reply) == 'table' and reply.err or reply }
end

-- Carries out what could not be done together: the replies that are still missing, in order.
local function rest(letters, replies, key, at)
  for i = 1, #letters do
    if letters:byte(i) == 46 then
      if ARGV[at] == 'c' then
        set_caller(ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4])
        at = at + 5
      end
      local letter = ARGV[at]
      lock, record = KEYS[key + 1], KEYS[key + 2]
      queue, waiters = KEYS[key + 3], KEYS[key + 4]
      replies[i + 2] = carry_out(letter, unpack(ARGV, at + 1, at + arguments[letter]))
      key = key + (few_keys[letter] and 2 or 4)
      at = at + 1 + arguments[letter]
    end
  end
end

return { carry_out, rest }
