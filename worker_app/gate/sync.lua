-- Tells what is known of a key, after adding the windows that the caller knows. Without any it writes nothing.
-- Returns { now, cleared, stepped, live, field, value, ... }.
local now, stepped, cleared = clock(), 0, 0
if ARGV[2] ~= '0' then
  now, stepped = begin({})
  cleared = known.e or 0
  flush(now, restore(2, tonumber(ARGV[1]), now))
else
  read({ 't', 'e' })
  now = math.max(now, math.min(known.t or 0, now + LEAP))
  cleared = known.e or 0
end
local answer = { now, cleared, stepped, redis.call('ZCOUNT', LEASES, '(' .. int(now), '+inf') }
for _, part in ipairs(redis.call('HGETALL', STATE)) do answer[#answer + 1] = part end
return answer
