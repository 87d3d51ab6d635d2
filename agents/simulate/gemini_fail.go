package simulate

import (
	"fmt"
	"slices"

	"flow/agents"
)

// A geminiFailure is how an error of the API ends the process.
type geminiFailure struct {
	exit    int // the HTTP status modulo 256, or 1
	message string
}

func geminiFailures(model string) map[agents.Cause]geminiFailure {
	const later = "\nPlease wait and try again later. To increase your limits, request a quota increase through AI Studio, or switch to another /auth method"
	return map[agents.Cause]geminiFailure{
		agents.CauseAuth: {145, `[API Error: {"error":{"code":401,"message":"Request had invalid authentication credentials.","status":"UNAUTHENTICATED"}}]`},
		agents.CauseBilling: {
			147, `[API Error: {"error":{"code":403,"message":"This API method requires billing to be enabled.","status":"PERMISSION_DENIED"}}]`,
		},
		agents.CauseRateLimit:  {173, "[API Error: You exceeded your current quota, please check your plan and billing details.]" + later},
		agents.CauseUsageLimit: {173, "[API Error: You have exhausted your daily quota on this model.]" + later},
		agents.CauseOverloaded: {247, `[API Error: {"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}]`},
		agents.CauseServer:     {244, `[API Error: {"error":{"code":500,"message":"An internal error has occurred.","status":"INTERNAL"}}]`},
		agents.CauseNetwork:    {1, "[API Error: exception TypeError: fetch failed sending request]"},
		agents.CauseContext: {
			144, `[API Error: {"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]`,
		},
		agents.CauseInvalidRequest: {
			144, `[API Error: {"error":{"code":400,"message":"Request contains an invalid argument.","status":"INVALID_ARGUMENT"}}]`,
		},
		agents.CauseModelNotFound: {
			1, "[API Error: models/" + model + " is not found for API version v1beta, or is not supported for generateContent. Call ListModels to see the list of available models and their supported methods.]",
		},
	}
}

func (g *gemini) fails(cause agents.Cause) error {
	_, ok := geminiFailures("")[cause]
	own := []agents.Cause{agents.CauseMaxTurns, agents.CauseMaxOutput, agents.CauseRefusal}
	if !ok && !slices.Contains(own, cause) {
		return fmt.Errorf("flow simulate: gemini has no failure %q; see the causes in\n%s", cause, Help)
	}
	return nil
}

// fail prints how the turn fails.
func (g *gemini) fail(cause agents.Cause) int {
	switch cause {
	case agents.CauseMaxTurns:
		g.result("error", object{
			"type":    "FatalTurnLimitedError",
			"message": "Reached max session turns for this session. Increase the number of turns by specifying maxSessionTurns in settings.json.",
		})
		return 53
	case agents.CauseMaxOutput: // reported as a success, with what there is of the text
		g.say("Simulated answer that was cut")
		g.result("success", nil)
		return 0
	case agents.CauseRefusal: // an answer without text
		g.line("error", object{"severity": "error", "message": "The model returned an empty response with no text or thoughts. This may be a transient API issue; please try again."})
		g.result("error", nil)
		return 0
	default:
		f := geminiFailures(g.model)[cause]
		g.complain("Error when talking to Gemini API: %s", f.message)
		g.result("error", object{"type": "unknown", "message": f.message})
		return f.exit
	}
}
