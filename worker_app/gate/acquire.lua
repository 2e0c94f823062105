-- Asks for leave to send one request now. Returns a grant { 1, delay, now, remaining, cleared, stepped, limit, live, ended,
-- room, born } or a wait { 0, wait, now, reason, cleared, stepped, bucket, left, ticket, generation, text, fails, born }; times
-- in milliseconds, -1 for what is not known. `room` is how many more may be under way now, `left` what is left of the window
-- alone, without ticket and priority, `born` since when leases are counted.
-- A wait writes only the moment, windows that the caller knew, leases that ran out and the ticket.
local lease, lease_ms = ARGV[1], tonumber(ARGV[2])
local priority, max_delay = tonumber(ARGV[3]), tonumber(ARGV[4])
local max_conc, ramp, guard = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local epoch, is_repeat = tonumber(ARGV[8]), ARGV[9] == '1'
local held_bucket, held_generation, held_ticket = ARGV[10], tonumber(ARGV[11]), tonumber(ARGV[12])
local FIRST, STRIDE, count = 14, 7, tonumber(ARGV[13])
local TICKET, PROBE, PROBE_AGAIN = 15, 50, 5000

-- Buckets, seven arguments each: name, model, cost, period, gap, burst, whether replies of the endpoint are silent about it.
local fields = { 'conc', 'u:*' }
for at = FIRST, FIRST + STRIDE * (count - 1), STRIDE do
  local name = ARGV[at]
  fields[#fields + 1] = 'u:' .. name
  if ARGV[at + 1] ~= 'none' then
    local next = #fields
    fields[next + 1], fields[next + 2], fields[next + 3] = 'L:' .. name, 'R:' .. name, 'W:' .. name
    fields[next + 4], fields[next + 5], fields[next + 6] = 'f:' .. name, 'x:' .. name, 'pa:' .. name
    if ARGV[at + 1] == 'leaky' then fields[next + 7] = 'O:' .. name end
    if priority == 2 then fields[#fields + 1] = 'nr:' .. name end
  end
  if ARGV[at + 4] ~= '0' then fields[#fields + 1] = 'tat:' .. name end
end
local now, stepped = begin(fields)
local longest = restore(FIRST + STRIDE * count, epoch, now)
local cleared = known.e or 0
if is_repeat then
  local ends = redis.call('ZSCORE', LEASES, lease)
  if ends then
    flush(now, longest)
    local live = redis.call('ZCARD', LEASES)
    return { 1, math.max(0, ends - lease_ms - now), now, -1, cleared, stepped, max_conc, live, '', max_conc - live, known.born }
  end
end
local live = reap(now)

local function wait(milliseconds, reason, bucket)
  flush(now, longest)
  return { 0, math.ceil(milliseconds), now, reason, cleared, stepped, bucket, -1, -1, -1, '', 0, known.born }
end

-- The window that ends last, and whether one has just ended.
local ends, closed, ended_at = 0, '*', 0
local function look(name)
  local closes = known['u:' .. name]
  if not closes then return end
  if closes <= now then
    ended_at = math.max(ended_at, closes)
  elseif closes > ends then
    ends, closed = closes, name
  end
end
look('*')
for at = FIRST, FIRST + STRIDE * (count - 1), STRIDE do look(ARGV[at]) end
if ends > now then
  read({ 'g:' .. closed, 'tk:' .. closed, 'fails:' .. closed })
  local generation, ticket = known['g:' .. closed] or 0, held_ticket
  if held_bucket ~= closed or held_generation ~= generation then
    ticket = known['tk:' .. closed] or 0
    write('tk:' .. closed, ticket + 1)
  end
  local later = priority == 1 and 250 or priority == 2 and 1000 or 0
  flush(now, longest)
  return { 0, ends - now + ticket * TICKET + later, now, 'window', cleared, stepped, closed, ends - now, ticket, generation,
    redis.call('HGET', STATE, 'y:' .. closed) or '', known['fails:' .. closed] or 0, known.born }
end

local left = -1
local share = priority == 1 and 0.05 or priority == 2 and 0.15 or 0  -- of a quota that is kept back from this priority
for at = FIRST, FIRST + STRIDE * (count - 1), STRIDE do
  local name, model, cost, period = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  if model ~= 'none' then
    local quota, remaining, reset = known['L:' .. name], known['R:' .. name], known['W:' .. name]
    local under_way = live > 0 and known['f:' .. name] or 0
    local is_untracked = (known['x:' .. name] or 0) > now
    local kept = share * ((known['nr:' .. name] or 0) > now and 2 or 1)
    local is_known = quota and remaining and reset and not is_untracked and (model == 'leaky' or reset + guard > now)
    if is_known and model == 'fixed' then
      -- The reserve melts to nothing as the window ends, so that no quota is left unused.
      local free = remaining - under_way
      if free - kept * quota * math.min(1, math.max(0, (reset - now) / period)) < cost then
        if free < cost then return wait(reset + guard - now, 'quota', name) end
        return wait(math.max(1, reset - (free - cost) / (kept * quota) * period - now), 'quota', name)
      end
      left = left < 0 and free or math.min(left, free)
    elseif is_known then
      local rate = quota / period
      local free = math.min(quota, remaining + math.max(0, now - known['O:' .. name]) * rate) - under_way
      local missing = math.min(quota, cost + kept * quota) - free  -- what is full lets one pass, however dear it is
      if missing > 0 then return wait(math.max(1, missing / rate), 'quota', name) end
      left = left < 0 and math.floor(free) or math.min(left, math.floor(free))
    elseif not is_untracked and ARGV[at + 6] ~= '1' then
      -- Nobody knows what is left: one request finds out, and one more where that one is slow.
      if under_way > 0 and now - (known['pa:' .. name] or 0) < PROBE_AGAIN then return wait(PROBE, 'probe', name) end
    end
  end
end

local limit = math.max(1, math.min(max_conc, math.floor((known.conc or max_conc * 1000) / 1000)))
local since, most = now - ended_at, limit
local function is_unused(name)
  return known['u:' .. name] and redis.call('HEXISTS', STATE, 'y:' .. name) == 1
end
if ended_at > 0 and since >= ramp then
  -- Where nobody was granted anything since the window ended, the rise begins now: so one request finds out first.
  local is_first = is_unused('*')
  for at = FIRST, FIRST + STRIDE * (count - 1), STRIDE do is_first = is_first or is_unused(ARGV[at]) end
  if is_first then since = 0 end
end
local is_rising = ended_at > 0 and since < ramp
if is_rising then most = math.max(1, math.floor(1 + (limit - 1) * since / ramp)) end
if is_rising or now - known.born < YOUNG then
  read({ 'p' })
  local pause = (known.p or 0) - now
  if pause > 0 and pause <= ALONE then return wait(pause, 'concurrency', '*') end
end
if live >= most then return wait(0, 'concurrency', '*') end

local delay, slowest = 0, ''
for at = FIRST, FIRST + STRIDE * (count - 1), STRIDE do
  local gap = tonumber(ARGV[at + 4])
  if gap > 0 then
    local due = math.max(known['tat:' .. ARGV[at]] or 0, now) - gap * (ARGV[at + 5] - 1) - now
    if due > delay then delay, slowest = due, ARGV[at] end
  end
end
if delay > max_delay then return wait(delay, 'pace', slowest) end

for at = FIRST, FIRST + STRIDE * (count - 1), STRIDE do
  local name, cost, gap = ARGV[at], tonumber(ARGV[at + 2]), tonumber(ARGV[at + 4])
  -- Pace counts requests: what the provider limits by the minute are those, whatever each costs of the quota.
  if gap > 0 then write('tat:' .. name, math.max(known['tat:' .. name] or 0, now) + gap) end
  if ARGV[at + 1] ~= 'none' then
    local reset = known['W:' .. name]
    local is_unknown = not (known['L:' .. name] and known['R:' .. name] and reset)
      or ARGV[at + 1] == 'fixed' and reset + guard <= now
    if is_unknown and ARGV[at + 6] ~= '1' and not ((known['x:' .. name] or 0) > now) then write('pa:' .. name, now) end
    write('f:' .. name, (live > 0 and known['f:' .. name] or 0) + cost)
  end
end

-- The first grant after a window takes its reason away, so its end is told once, whoever asks, and is alone for a moment. When
-- nothing follows from the window any more, it is forgotten.
local ended = ''
local function forget(name)
  local closes = known['u:' .. name]
  if not closes then return end
  local is_first = redis.call('HDEL', STATE, 'y:' .. name) == 1
  if is_first then
    ended = ended .. (ended == '' and '' or ',') .. name
    write('p', now + ALONE)
  end
  if now - closes >= ramp then write('u:' .. name, is_first and now or nil) end
end
if ended_at > 0 then
  forget('*')
  for at = FIRST, FIRST + STRIDE * (count - 1), STRIDE do forget(ARGV[at]) end
end
redis.call('ZADD', LEASES, int(now + delay + lease_ms), lease)
if live == 0 then redis.call('PEXPIRE', LEASES, int(LIFE)) end
flush(now, longest)
return { 1, delay, now, left, cleared, stepped, limit, live + 1, ended, most - live - 1, known.born }
