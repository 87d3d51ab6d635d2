package pipeline

import "time"

// What a pipeline may hold. Everything below MaxSteps grows with Options.MaxSteps.
const (
	// MaxFileBytes is the size of a pipeline file.
	MaxFileBytes = 1 << 20
	// MaxSteps is the number of steps of a plan, those in groups included.
	MaxSteps = 10_000
	// MaxNodes is the number of YAML nodes (keys and values) of a file: 20 a step.
	MaxNodes = 20 * MaxSteps
	// MaxKeys is the number of keys of one mapping. The steps of a pipeline or a
	// group are bounded by MaxSteps alone.
	MaxKeys = 1000
	// MaxDepth is how deep YAML, and steps in groups, may nest.
	MaxDepth = 100
	// MaxAliasNodes is what all aliases of a file expand to, in nodes.
	MaxAliasNodes = 10_000

	// MaxTemplateBytes is the size of one template.
	MaxTemplateBytes = 256 << 10
	// MaxFrozenBytes is the size of a file that `file "name"` freezes into the plan.
	MaxFrozenBytes = 1 << 20
	// MaxRenderedBytes is what one template may render to, and the longest text that
	// a template function returns.
	MaxRenderedBytes = 4 << 20
	// MaxTicks is how many turns the loops of one rendering may take together.
	MaxTicks = 100_000
	// MaxItems is the number of items of a `foreach`.
	MaxItems = 10_000
	// MaxRounds is the most that the `max` of a `repeat` may say.
	MaxRounds = 1000
	// MaxCandidates is the number of agents of a `race` or `vote`.
	MaxCandidates = 20
	// MaxCalls is how deep pipelines may call one another.
	MaxCalls = 10
	// MaxCalledBytes is the size of all called pipelines with the texts they froze,
	// each counted as often as it is called.
	MaxCalledBytes = 64 << 20
	// MaxValues is how many elements a list or dict built by a template may hold.
	MaxValues = 100_000

	// maxErrors ends the search for mistakes: who made a thousand made one, often.
	maxErrors = 1000

	maxIDBytes  = 64
	maxTimeout  = 7 * 24 * time.Hour
	maxAttempts = 10
	usualRounds = 10 // of a `repeat` that does not say
)
