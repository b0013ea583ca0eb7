-- Sells one item: writes back the stock that the worker has worked out, and counts the sale.
--
-- KEYS  1 shop  hash  as for look.lua
-- ARGV  1 the worker's fencing token, 2 the stock from now on
-- Reply 1, or 0 if the token is smaller than one that was seen: then nothing is sold

local shop, token = KEYS[1], ARGV[1]
redis.call('HDEL', shop, 'begun:' .. token)
if tonumber(token) < tonumber(redis.call('HGET', shop, 'token') or 0) then
  redis.call('HINCRBY', shop, 'refused', 1)
  return 0
end
redis.call('HSET', shop, 'token', token, 'stock', ARGV[2])
redis.call('HINCRBY', shop, 'sold', 1)
return 1
