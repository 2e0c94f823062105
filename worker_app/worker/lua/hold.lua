-- Notes a message that kombu has taken out of its list.
--
-- KEYS  1 unacked  2 its index  3 owners
-- ARGV  1 this process  2 tag  3 note
local time = redis.call('TIME')
redis.call('HSET', KEYS[3], ARGV[2], ARGV[1])
redis.call('ZADD', KEYS[2], time[1] .. '.' .. string.format('%06d', time[2]), ARGV[2])
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
