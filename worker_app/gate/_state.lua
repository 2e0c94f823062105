-- What every script shares. KEYS[1]: hash, what is known of one key. KEYS[2]: sorted set, lease -> moment of its end.
-- Fields of the hash, with b a bucket: born moment of its first call, t last moment seen, e moment of the last clear, k moment
-- to say anew how long it lives, conc learned limit in thousandths, p moment until which nothing is granted, u:b closed until, y:b reason and detail, g:b moment at which the window opened, fails:b refused generations in a row,
-- tk:b tickets given, L:b R:b W:b limit, remaining, reset, O:b observed at, S:b sent at, x:b untracked until, nr:b near its limit
-- until, pa:b last probe, tat:b pacing, f:b cost under way. All moments are milliseconds of clock(). A script reads once what it
-- needs into `known`, and writes once what it noted by `write`.
local STATE, LEASES = KEYS[1], KEYS[2]
local LIFE, HOUR, MINUTE, LEAP, TRAVEL = 7200000, 3600000, 60000, 5000, 1000
local YOUNG, ALONE = 1000, 110
local known, changed, order = {}, {}, {}

local function int(number)
  return string.format('%.0f', number)
end

-- Reads numbers into `known` by field, but for those that were noted already; what is not there is nil.
local function read(fields)
  local values = redis.call('HMGET', STATE, unpack(fields))
  for index = 1, #fields do
    if not changed[fields[index]] then known[fields[index]] = tonumber(values[index] or nil) end
  end
end

-- Notes a number, to be written by `flush`; nil takes the field away.
local function write(field, number)
  known[field] = number
  if not changed[field] then
    changed[field] = true
    order[#order + 1] = field
  end
end

-- The clock stepped back by `step`: everything that was stored moves with it, so that no wait grows by the step.
local function shift(step)
  local moments = { u = true, g = true, W = true, O = true, S = true, x = true, nr = true, pa = true, tat = true }
  local all = redis.call('HGETALL', STATE)
  for index = 1, #all, 2 do
    local kind = string.match(all[index], '^(%a+):')
    if kind and moments[kind] then redis.call('HSET', STATE, all[index], int(all[index + 1] - step)) end
  end
  local live = redis.call('ZRANGE', LEASES, 0, -1, 'WITHSCORES')
  for index = 1, #live, 2 do redis.call('ZADD', LEASES, int(live[index + 1] - step), live[index]) end
end

-- Reads `fields` beside those of every call. Returns the moment of this call, never before the last one, and by how much
-- the clock was found to have stepped back.
local function begin(fields)
  local next = #fields
  fields[next + 1], fields[next + 2], fields[next + 3], fields[next + 4] = 't', 'e', 'k', 'born'
  read(fields)
  local now, stepped = clock(), 0
  local seen = known.t or 0
  if seen > now then
    if seen - now <= LEAP then
      now = seen
    else
      stepped = seen - now
      shift(stepped)
      read(fields)
      known.k = nil
    end
  end
  write('t', now)
  if not known.born then write('born', now) end
  return now, stepped
end

-- Writes what was noted; `latest` is the last moment that a field of it still means something. Both keys live on for two
-- hours, and longer where a window or a quota does; said anew once a minute.
local function flush(now, latest)
  local is_due = now >= (known.k or 0)
  if is_due then write('k', now + MINUTE) end
  local written, dropped = {}, {}
  for _, field in ipairs(order) do
    local number = known[field]
    if number then
      written[#written + 1] = field
      written[#written + 1] = int(number)
    else
      dropped[#dropped + 1] = field
    end
  end
  redis.call('HSET', STATE, unpack(written))
  if #dropped > 0 then redis.call('HDEL', STATE, unpack(dropped)) end
  local life = math.max(LIFE, latest + HOUR - now)
  if is_due or life > LIFE then
    if redis.call('PTTL', STATE) < life then redis.call('PEXPIRE', STATE, int(life)) end
  end
  if is_due then redis.call('PEXPIRE', LEASES, int(LIFE)) end
end

-- What a lease costs each quota, as (field, cost): it names that after its bar, `token.7|core:1`.
local function costs(lease)
  local parts = string.gmatch(string.match(lease, '|(.*)$') or '', '([^,:]+):(%d+)')
  return function()
    local bucket, cost = parts()
    if bucket then return 'f:' .. bucket, tonumber(cost) end
  end
end

-- Notes that a lease has ended.
local function lessen(lease)
  for field, cost in costs(lease) do
    if known[field] == nil then read({ field }) end
    local left = (known[field] or 0) - cost
    write(field, left > 0 and left or nil)
  end
end

-- Frees at most 64 leases that have run out, so that one call never pays for a crowd of dead clients. Returns how many live.
local function reap(now)
  local over = redis.call('ZRANGEBYSCORE', LEASES, '-inf', int(now), 'LIMIT', 0, 64)
  if #over > 0 then
    for _, lease in ipairs(over) do lessen(lease) end
    redis.call('ZREM', LEASES, unpack(over))
  end
  return redis.call('ZCARD', LEASES)
end

-- Windows that the caller knows, four arguments each after their number at `at`: bucket, milliseconds left, reason, and
-- whether Redis told it of the window. A window only ever grows by them, and none comes back that was cleared after the caller
-- last heard of the key. One that Redis told of counts only where it is longer by more than an answer travels: else every look
-- at a window would make it longer. The moment of the last clear comes back as well. Returns the end of the longest of them.
local function restore(at, epoch, now)
  local longest, cleared = 0, known.e or 0
  if cleared > epoch then return longest end
  if epoch > cleared then write('e', epoch) end
  for index = at + 1, at + 4 * ARGV[at], 4 do
    local bucket, ends = ARGV[index], now + ARGV[index + 1]
    local field = 'u:' .. bucket
    if known[field] == nil then read({ field }) end
    local before = known[field] or 0
    if ends > before + (ARGV[index + 3] == '1' and TRAVEL or 0) then
      if before <= now then
        redis.call('HSET', STATE, 'y:' .. bucket, ARGV[index + 2])
        write('g:' .. bucket, now)
        write('tk:' .. bucket, nil)
      end
      write(field, ends)
      longest = math.max(longest, ends)
    end
  end
  return longest
end
