-- Says that messages are still being worked on: moves them to now in the index, by Redis's clock. A tag that is gone stays
-- gone, and one that another process has taken since keeps that one's time.
--
-- KEYS  1 the index of unacked  2 owners
-- ARGV  1 this process  2… tags
local time = redis.call('TIME')
local now = time[1] .. '.' .. string.format('%06d', time[2])
for position = 2, #ARGV do
    local owner = redis.call('HGET', KEYS[2], ARGV[position])
    if not owner or owner == ARGV[1] then
        redis.call('ZADD', KEYS[1], 'XX', now, ARGV[position])
    end
end
