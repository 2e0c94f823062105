-- Who is there. KEYS[1]: sorted set, `node|processes` -> second of its last sign. ARGV: node, processes, seconds that a sign is
-- worth. By the time of Redis alone. Returns how many processes the workers that are there have together.
local now = tonumber(redis.call('TIME')[1])
redis.call('ZADD', KEYS[1], now, ARGV[1] .. '|' .. ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[3]))
redis.call('EXPIRE', KEYS[1], ARGV[3])
local total = 0
for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  total = total + tonumber(string.match(member, '|(%d+)$'))
end
return total
