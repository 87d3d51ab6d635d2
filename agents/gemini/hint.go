package gemini

import "flow/agents"

// hintFor says what to do about a cause, or "".
func hintFor(cause agents.Cause) string {
	switch cause {
	case agents.CauseAuth:
		return loginHint + " (where GOOGLE_GEMINI_BASE_URL needs an auth type in ~/.gemini/settings.json)"
	case agents.CauseBilling:
		return "check the billing of the key's Google Cloud project"
	case agents.CauseRateLimit:
		return "lower the concurrency of gemini steps, or raise the quota in AI Studio"
	case agents.CauseUsageLimit:
		return "wait for the daily quota to reset, choose another model, or raise the quota in AI Studio"
	case agents.CauseOverloaded, agents.CauseServer:
		return "try again later, or choose another model"
	case agents.CauseNetwork:
		return "check the connection and the proxy settings"
	case agents.CauseContext:
		return "shorten the prompt, or begin a new session"
	case agents.CauseMaxTurns:
		return "split the task, or raise the turn limit"
	case agents.CauseMaxOutput:
		return "ask for a shorter answer, or split the task"
	case agents.CauseRefusal:
		return "rephrase the prompt"
	case agents.CauseModelNotFound:
		return "check the model's name"
	case agents.CauseSessionNotFound:
		return "begin a new session; sessions belong to the directory they began in"
	case agents.CauseSessionInUse:
		return "resume the session, or choose another id for the new one"
	case agents.CauseIncomplete, agents.CauseCrash:
		return "try again; its standard error may say more"
	case agents.CauseConfig:
		return "check the step's model, directories and arguments, and the settings.json files it reads"
	default:
		return ""
	}
}
