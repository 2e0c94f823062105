-- Puts messages back into their lists, each once, and only while it belongs to who puts it back: to this process, or, in a
-- sweep, to whoever has given no sign of work since the sweeper looked.
--
-- KEYS  1 unacked  2 its index  3 owners  4… the lists, in the order of the messages
-- ARGV  1 RPUSH (it is the next one) or LPUSH (it is the last one)  2 this process, or empty in a sweep
--       3… for each message: tag, its score when the sweeper looked, text, number of lists
-- Gives the number that was put back, and of those that a list has refused: they stay.
local done, refused, list = 0, 0, 4
for position = 3, #ARGV, 4 do
    local tag, score, message, lists = ARGV[position], ARGV[position + 1], ARGV[position + 2], tonumber(ARGV[position + 3])
    local owner = redis.call('HGET', KEYS[3], tag)
    local is_own = ARGV[2] ~= '' and (not owner or owner == ARGV[2])
    local is_stale = ARGV[2] == '' and tonumber(redis.call('ZSCORE', KEYS[2], tag) or -1) == tonumber(score)
    if is_own or is_stale then
        -- first, since a script that has freed something may still push when Redis has no memory left
        redis.call('HDEL', KEYS[3], tag)
        local is_there, is_taken = redis.call('HEXISTS', KEYS[1], tag) == 1, true
        for number = list, is_there and list + lists - 1 or 0 do
            local kind = redis.call('TYPE', KEYS[number]).ok
            is_taken = is_taken and (kind == 'list' or kind == 'none')  -- all of them or none
        end
        if is_taken then
            for number = list, is_there and list + lists - 1 or 0 do
                redis.call(ARGV[1], KEYS[number], message)
            end
            redis.call('HDEL', KEYS[1], tag)
            redis.call('ZREM', KEYS[2], tag)
            done = done + (is_there and 1 or 0)
        else
            refused = refused + 1
        end
    end
    list = list + lists
end
return {done, refused}
