-- Clears a bucket, `*` all of them: windows, refusals and what was known of the quota. Leases stay. Whoever knows a cleared
-- window hears of it by the moment of the clear, which only ever grows; it is written also where nothing is known, for others
-- may know what Redis has lost. Returns how many windows were open.
local wanted, fields, open = ARGV[1], redis.call('HGETALL', STATE), 0
local now = begin({})
local KEPT = { f = true, tat = true, nr = true }
for index = 1, #fields, 2 do
  local kind, bucket = string.match(fields[index], '^(%a+):(.*)$')
  if kind and not KEPT[kind] and (wanted == '*' or wanted == bucket) then
    if kind == 'u' and tonumber(redis.call('HGET', STATE, fields[index])) > now then open = open + 1 end
    write(fields[index], nil)
  end
end
write('e', math.max(now, (known.e or 0) + 1))
flush(now, 0)
return open
