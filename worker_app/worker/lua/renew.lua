-- Says that messages are still being worked on: moves them to now in the index, by Redis's clock. A tag that is gone stays gone.
--
-- KEYS  1 the index of unacked
-- ARGV  tags
local time = redis.call('TIME')
local now = time[1] .. '.' .. string.format('%06d', time[2])
for _, tag in ipairs(ARGV) do
    redis.call('ZADD', KEYS[1], 'XX', now, tag)
end
