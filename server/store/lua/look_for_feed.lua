-- Sends a view of a name to a feed, in order with its other items.
--
-- KEYS  all four
-- ARGV  o: the feed's channel
-- Reply LOOKED | UNHEARD if the feed has no subscriber, or the user may not publish

local function look_for_feed(channel)
  looked = { channel, view(0) }
  return LOOKED
end
