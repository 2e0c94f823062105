"""The clock of Redis in tests that set it: what TIME says, and a step that stands in Redis itself."""

CLOCK_STEP = "chaos-gate-clock-step"  # milliseconds
STEPPED = f"""
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(redis.call('GET', '{CLOCK_STEP}') or 0)
end
"""
