-- Ends a lease and learns from the reply. Returns { removed, left, now, cleared, stepped, bucket, fails, opened, leaked, born }:
-- `left` milliseconds of the window that a refusal closed (0: it was none), `opened` 1 for a new window, 2 for one that grew
-- by more than a second, `leaked` 1 where the refused request started while its bucket was known to be closed.
-- What adds up happens only in the call that removes the lease, so a call that is repeated does no harm.
local lease, sent = ARGV[1], tonumber(ARGV[2])
local kind, closes, after, after_at, text = ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local guard, default_after, max_conc = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10]) * 1000
local FIRST, STRIDE, count = 12, 7, tonumber(ARGV[11])
local LONGEST, HASTY, SAME, GROWN, DAY = 900000, 2000, 2000, 1000, 86400000
local is_success = kind == 'ok' or kind == 'near'
local is_refused = kind == 'primary' or kind == 'secondary' or kind == 'burst'

-- Quotas, seven arguments each: bucket, model, period, limit, remaining, reset in, reset at; then the endpoint's buckets.
local names = FIRST + STRIDE * count
local fields = { 'conc' }
for at = FIRST, names - 1, STRIDE do
  local name, next = ARGV[at], #fields
  fields[next + 1], fields[next + 2], fields[next + 3], fields[next + 4] = 'L:' .. name, 'R:' .. name, 'W:' .. name, 'f:' .. name
  if ARGV[at + 1] == 'leaky' then fields[next + 5] = 'S:' .. name end
  fields[#fields + 1] = 'x:' .. name
end
for at = names + 1, is_success and names + tonumber(ARGV[names]) or names do fields[#fields + 1] = 'fails:' .. ARGV[at] end
if is_refused then
  local next = #fields
  fields[next + 1], fields[next + 2], fields[next + 3] = 'u:' .. closes, 'g:' .. closes, 'fails:' .. closes
elseif kind == 'near' then
  fields[#fields + 1] = 'W:' .. closes
end
local now, stepped = begin(fields)
local conc = math.min(max_conc, known.conc or max_conc)
-- How much of the limit was in use matters only where the limit may grow.
local live = is_success and conc < max_conc and redis.call('ZCARD', LEASES) or 0
local removed = redis.call('ZREM', LEASES, lease)
if removed == 1 then lessen(lease) end

local left, fails, opened, leaked, latest = 0, 0, 0, 0, 0
if is_refused then
  local ends, generation = known['u:' .. closes] or 0, known['g:' .. closes] or 0
  fails = known['fails:' .. closes] or 0
  if sent > generation then
    -- A salvo of refusals counts once: only the first of them was sent after the last window opened.
    if ends > sent and generation > 0 then leaked = 1 end
    fails = fails + 1
    write('g:' .. closes, now)
    write('fails:' .. closes, fails)
    write('tk:' .. closes, nil)
    if closes == '*' and kind ~= 'primary' then
      conc = math.max(1000, math.floor(conc / 2))
      write('conc', conc)
    end
  elseif ends <= now then
    write('g:' .. closes, now)
  end
  if after < 0 and after_at >= 0 and after_at - now <= DAY then after = math.max(1000, after_at - now) end
  if after < 0 then
    after = math.min(LONGEST, default_after * 2 ^ (math.max(1, fails) - 1))
  elseif kind == 'primary' and after <= HASTY and fails > 1 then
    after = math.max(after, math.min(2 ^ fails * 1000, 60000))
  end
  local wanted = now + after + guard
  if wanted > ends then
    if ends <= now then opened = 1 elseif wanted > ends + GROWN then opened = 2 end
    write('u:' .. closes, wanted)
    redis.call('HSET', STATE, 'y:' .. closes, text)
    ends = wanted
  end
  left, latest = ends - now, ends
end

for at = FIRST, names - 1, STRIDE do
  local name, model, period = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local quota, remaining = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
  local reset_in, reset_at = tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6])
  if quota == 0 then
    write('x:' .. name, now + HOUR)
  elseif remaining >= 0 then
    local ends = known['W:' .. name] or 0
    if reset_in < 0 and reset_at >= 0 and reset_at - now >= -LEAP and reset_at - now <= DAY then
      reset_in = math.max(0, reset_at - now)
    end
    -- A reply that does not say when: the window that is known goes on, or one begins now. Of a leaky quota the size has to be
    -- known, for it says how fast it comes back.
    local reset = reset_in >= 0 and now + reset_in or ends > now and ends or now + period
    local before = known['L:' .. name] or 0
    quota = quota > 0 and quota or before > 0 and before or remaining
    local is_same = model ~= 'leaky' and ends > now and reset <= ends + SAME
    if not is_same and (model ~= 'leaky' or quota > 0 and sent >= (known['S:' .. name] or 0)) then
      write('L:' .. name, quota)
      write('R:' .. name, remaining)
      write('W:' .. name, reset)
      if model == 'leaky' then
        write('O:' .. name, now)
        write('S:' .. name, sent)
      end
      if known['x:' .. name] then write('x:' .. name, nil) end
    elseif is_same and reset >= ends - SAME then
      if remaining < (known['R:' .. name] or remaining + 1) then write('R:' .. name, remaining) end
      -- A Date is cut to the second and the way of a reply takes time: both make a reset late, so the earliest is the nearest.
      if reset < ends then write('W:' .. name, reset) end
    end
    latest = math.max(latest, reset)
  end
end
if kind == 'near' then
  local reset = known['W:' .. closes] or 0
  write('nr:' .. closes, reset > now and reset or now + 60000)
end

-- The refusals of the endpoint's buckets are over once a request that began after their window succeeds.
for at = names + 1, is_success and names + tonumber(ARGV[names]) or names do
  local name = ARGV[at]
  if known['fails:' .. name] and sent > tonumber(redis.call('HGET', STATE, 'u:' .. name) or 0) then
    write('fails:' .. name, nil)
  end
end
if is_success and removed == 1 and conc < max_conc and live * 2000 >= conc then
  write('conc', math.min(max_conc, conc + 1000000 / conc))
end
flush(now, latest)
return { removed, left, now, known.e or 0, stepped, closes, fails, opened, leaked, known.born }
