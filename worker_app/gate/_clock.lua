-- The clock of every script: Redis TIME in whole milliseconds. Put before each of them; nothing else reads a clock.
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
