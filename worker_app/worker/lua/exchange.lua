-- Settles what is done and takes what is ready, in one step: a message is never out of its list without being in unacked.
-- kombu pops first and notes afterwards; a worker that is killed between the two loses the message.
--
-- KEYS  1 unacked (hash: tag -> [message, exchange, routing key])  2 its index (sorted set: tag by the time it was taken)
--       3 the last answer of this process  4… the lists to take from, one message from each in turn
-- ARGV  1 most messages to take  2 number of this call  3 life of the answer, seconds  4… tags that are settled
-- Gives list, tag, message, list, tag, message … ; an empty tag: the message cannot be read and stands in LIST:unreadable.
local most, settled = tonumber(ARGV[1]), {}
for position = 4, #ARGV do
    settled[#settled + 1] = ARGV[position]
end
if #settled > 0 then
    redis.call('HDEL', KEYS[1], unpack(settled))
    redis.call('ZREM', KEYS[2], unpack(settled))
end

local function text(value)
    return cjson.encode(type(value) == 'string' and value or '')
end

-- Notes the message under its tag, or puts it aside; gives the tag, or the error of a Redis that has no memory left.
local function keep(list, message, now)
    local is_read, content = pcall(cjson.decode, message)
    local properties = is_read and type(content) == 'table' and content.properties
    local tag = type(properties) == 'table' and properties.delivery_tag
    if type(tag) ~= 'string' or tag == '' then
        local aside = redis.pcall('LPUSH', list .. ':unreadable', message)
        return '', type(aside) == 'table' and aside.err
    end
    local info = type(properties.delivery_info) == 'table' and properties.delivery_info or {}
    -- the message is copied as it is: cjson would write an empty list as an object
    local note = '[' .. message .. ',' .. text(info.exchange) .. ',' .. text(info.routing_key) .. ']'
    local noted = redis.pcall('HSET', KEYS[1], tag, note)
    if type(noted) ~= 'table' then
        noted = redis.pcall('ZADD', KEYS[2], now, tag)
    end
    return tag, type(noted) == 'table' and noted.err
end

local time = redis.call('TIME')
local now = time[1] .. '.' .. string.format('%06d', time[2])
local taken, answer, count = {}, {}, 0
local is_found, fault = most > 0, nil
while is_found and not fault do
    is_found = false
    for position = 4, #KEYS do
        local list = KEYS[position]
        local message = count < most and redis.call('LINDEX', list, -1)
        if message then
            local tag
            tag, fault = keep(list, message, now)
            if fault then
                break
            end
            redis.call('RPOP', list)
            is_found = true
            count = count + 1
            if tag ~= '' then
                answer[#answer + 1] = list
                answer[#answer + 1] = tag
            end
            taken[#taken + 1] = list
            taken[#taken + 1] = tag
            taken[#taken + 1] = message
        end
    end
end
if #answer > 0 then
    redis.pcall('SET', KEYS[3], cjson.encode({ARGV[2], answer}), 'EX', ARGV[3])
elseif fault then
    return redis.error_reply(fault)
end
return taken
