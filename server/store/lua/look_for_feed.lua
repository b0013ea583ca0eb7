-- Shows a name to a feed, among what is told to it.
--
-- KEYS  all four
-- ARGV  o: the feed's channel
-- Reply LOOKED | UNHEARD if nobody hears what is told, or nobody may be told anything

local function look_for_feed(channel)
  looked = { channel, view(0) }
  return LOOKED
end
