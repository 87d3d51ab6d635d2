package pipeline

// A Field is something that a template can name, for people and editors.
type Field struct{ Name, Doc string }

// Roots are the values that templates see, those that belong to some places only too.
func Roots() []Field {
	return []Field{
		{"inputs", "The inputs of the run."},
		{"secrets", "The declared secrets. In `env` only."},
		{"env", "The variables of the pipeline and of the step."},
		{"run", "The run: id, dir, started, pipeline."},
		{"steps", "Other steps by their ids. Naming one makes it a need."},
		{"item", "The item that the step is done for. Within `foreach` only."},
		{"index", "The number of the item, from 0. Within `foreach` only."},
		{"iteration", "The number of the round, from 1. Within `repeat` only."},
		{"previous", "What the round before left; null in the first. Within `repeat` only."},
	}
}

// RunFields are the values below `.run`.
func RunFields() []Field {
	return []Field{
		{"id", "The run's id."},
		{"dir", "The directory that the run is recorded in."},
		{"started", "When the run began, as RFC 3339 text in UTC."},
		{"pipeline", "The pipeline's name."},
	}
}

// StepFields are the values below `.steps.ID`.
func StepFields() []Field {
	return []Field{
		{"status", "How it ended: succeeded, failed, skipped or cancelled."},
		{"text", "An agent's final answer, or what a command printed without the line end."},
		{"output", "The answer as data, by the step's `output` schema."},
		{"error", "Why it failed; empty text if it did not."},
		{"session", "The native session's id."},
		{"agent", "The profile that answered."},
		{"model", "The model that answered."},
		{"usage", "Tokens: inputTokens, outputTokens, cachedTokens, reasoningTokens, totalTokens."},
		{"cost", "US dollars, as the agent reports them."},
		{"duration", "How long it took."},
		{"exit", "Exit status of a command."},
		{"stdout", "What a command printed."},
		{"stderr", "The end of what a command printed on standard error."},
		{"steps", "The steps of a group, by id."},
		{"diff", "What the step changed in its workspace, as a unified diff."},
		{"files", "The files that the step changed."},
		{"branch", "The branch that holds the changes of an isolated step."},
		{"artifacts", "The kept files: a list of {name, size}."},
		{"items", "The items of a `foreach`, or the candidates of a contest, in order."},
		{"iterations", "How many rounds a `repeat` took."},
	}
}
