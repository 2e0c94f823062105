-- Puts messages back into their lists. Who takes a message out of unacked puts it back, so it is put back once.
--
-- KEYS  1 unacked  2 its index  3… for each message the list it goes to
-- ARGV  1 RPUSH (it is the next one) or LPUSH (it is the last one)  2… for each message its tag and its text
-- Gives the number of messages that were put back.
local count = 0
for position = 3, #KEYS do
    local tag = ARGV[2 * (position - 2)]
    redis.call('ZREM', KEYS[2], tag)
    if redis.call('HDEL', KEYS[1], tag) == 1 then
        redis.call(ARGV[1], KEYS[position], ARGV[2 * (position - 2) + 1])
        count = count + 1
    end
end
return count
