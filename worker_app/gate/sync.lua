-- Tells what is known of a key, after adding the windows that the caller knows and the leases that it holds: these are counted
-- also where another Redis, or the caller by itself, has granted them. Without any it writes nothing.
-- Returns { now, cleared, stepped, live, field, value, ... }.
local epoch = tonumber(ARGV[1])
local leases_at = 3 + 4 * ARGV[2]

-- Counts leases, two arguments each after their number at `at`: name, milliseconds that it may last.
local function adopt(at, now)
  local is_empty = redis.call('ZCARD', LEASES) == 0
  for index = at + 1, at + 2 * ARGV[at], 2 do
    if redis.call('ZADD', LEASES, 'NX', int(now + ARGV[index + 1]), ARGV[index]) == 1 then
      for field, cost in costs(ARGV[index]) do
        if known[field] == nil then read({ field }) end
        write(field, (is_empty and not changed[field] and 0 or known[field] or 0) + cost)
      end
    end
  end
  if is_empty then redis.call('PEXPIRE', LEASES, int(LIFE)) end
  -- Leases of a key that is new: Redis has lost it, and other callers have theirs yet to tell.
  if now - known.born < YOUNG then write('p', now + ALONE) end
end

local now, stepped, cleared = clock(), 0, 0
if ARGV[2] ~= '0' or ARGV[leases_at] ~= '0' then
  now, stepped = begin({})
  local longest = restore(2, epoch, now)
  cleared = known.e or 0
  if ARGV[leases_at] ~= '0' then adopt(leases_at, now) end
  flush(now, longest)
else
  -- Where the clock stepped back, what is known is told as of the last moment before.
  read({ 't', 'e' })
  local seen = known.t or 0
  if seen - now > LEAP then stepped = seen - now end
  now = math.max(now, seen)
  cleared = math.max(epoch, known.e or 0)
end
local answer = { now, cleared, stepped, redis.call('ZCOUNT', LEASES, '(' .. int(now), '+inf') }
for _, part in ipairs(redis.call('HGETALL', STATE)) do answer[#answer + 1] = part end
return answer
