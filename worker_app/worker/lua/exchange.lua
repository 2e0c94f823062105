-- Settles what is done and takes what is ready, in one step: a message is never out of its list without being in unacked.
-- kombu pops first and notes afterwards; a worker that is killed between the two loses the message.
--
-- KEYS  1 unacked (hash: tag -> [message, exchange, routing key])  2 its index (sorted set: tag by the time of the last sign
--       of work)  3 owners (hash: tag -> process)  4 the last answer of this process
--       5… the lists to take from, one message from each in turn
-- ARGV  1 this process  2 most messages to take  3 number of this call  4 life of the answer, seconds
--       5… tags that are settled
-- Gives list, tag, message, list, tag, message … ; without a tag the message cannot be read and stands in LIST:unreadable;
-- without either the key is no list.
local process, most = ARGV[1], tonumber(ARGV[2])

-- Settles what is still this process's own: another may have it since, after a silence that was too long.
for position = 5, #ARGV do
    local tag = ARGV[position]
    local owner = redis.call('HGET', KEYS[3], tag)
    if not owner or owner == process then
        redis.call('HDEL', KEYS[1], tag)
        redis.call('ZREM', KEYS[2], tag)
        redis.call('HDEL', KEYS[3], tag)
    end
end

local function text(value)
    return cjson.encode(type(value) == 'string' and value or '')
end

local function fault_of(answer)
    return type(answer) == 'table' and answer.err or nil
end

-- Notes the message under its tag, or puts it aside; gives the tag, or the error of a Redis that has no memory left.
local function keep(list, message, now)
    local is_read, content = pcall(cjson.decode, message)
    local properties = is_read and type(content) == 'table' and content.properties
    local tag = type(properties) == 'table' and properties.delivery_tag
    if type(tag) ~= 'string' or tag == '' then
        return '', fault_of(redis.pcall('LPUSH', list .. ':unreadable', message))
    end
    local info = type(properties.delivery_info) == 'table' and properties.delivery_info or {}
    -- the message is copied as it is: cjson would write an empty list as an object
    local note = '[' .. message .. ',' .. text(info.exchange) .. ',' .. text(info.routing_key) .. ']'
    local fault = fault_of(redis.pcall('HSET', KEYS[3], tag, process))
        or fault_of(redis.pcall('ZADD', KEYS[2], now, tag))
        or fault_of(redis.pcall('HSET', KEYS[1], tag, note))
    return tag, fault
end

local time = redis.call('TIME')
local now = time[1] .. '.' .. string.format('%06d', time[2])
local taken, answer, is_wrong, count = {}, {}, {}, 0
local is_found, fault = most > 0, nil
while is_found and not fault do
    is_found = false
    for position = 5, #KEYS do
        local list = KEYS[position]
        local message = count < most and not is_wrong[list] and redis.pcall('LINDEX', list, -1)
        if fault_of(message) then
            is_wrong[list] = true
            for _, part in ipairs({list, '', ''}) do
                taken[#taken + 1] = part
            end
        elseif message then
            local tag
            tag, fault = keep(list, message, now)
            if fault then
                break
            end
            redis.call('RPOP', list)
            is_found = true
            count = count + 1
            if tag ~= '' then
                answer[#answer + 1] = {list, tag, #message}
            end
            for _, part in ipairs({list, tag, message}) do
                taken[#taken + 1] = part
            end
        end
    end
end
if #answer > 0 then
    redis.pcall('SET', KEYS[4], cjson.encode({ARGV[3], answer}), 'EX', ARGV[4])
elseif fault then
    return redis.error_reply(fault)
end
return taken
