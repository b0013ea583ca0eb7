-- Looks at the stock, before a sale.
--
-- KEYS  1 shop  hash  stock; sold; token, the largest fencing token seen; refused, how many requests came too late;
--                     begun:<token>, the worker that looked and has not sold yet
-- ARGV  1 the worker's fencing token, 2 the worker's number
-- Reply the stock, or false if the token is smaller than one that was seen
--
-- Looking raises the token too: from then on nothing can change the stock that was decided on an earlier look.
-- Tokens stay below 2^53, so that Lua's numbers compare them exactly; they are stored as they came.

local shop, token = KEYS[1], ARGV[1]
if tonumber(token) < tonumber(redis.call('HGET', shop, 'token') or 0) then
  redis.call('HINCRBY', shop, 'refused', 1)
  return false
end
redis.call('HSET', shop, 'token', token)
local stock = tonumber(redis.call('HGET', shop, 'stock'))
if stock > 0 then redis.call('HSET', shop, 'begun:' .. token, ARGV[2]) end
return stock
