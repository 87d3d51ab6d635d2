package main

import (
	"github.com/spf13/cobra"

	"flow/agents"
	"flow/pipeline"
)

func (a *app) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema [pipeline|events]",
		Short: "Print the JSON Schema of pipelines, or of events",
		Long: "schema prints the JSON Schema of pipeline files, which editors use to complete and check them, or\n" +
			"with `events` that of the unified events.",
		Example: "  flow schema > pipeline.schema.json\n" +
			"  # then, in the first line of a pipeline:\n" +
			"  # yaml-language-server: $schema=pipeline.schema.json",
		Args: arguments(0, 1, "`pipeline` or `events`"),
		RunE: func(_ *cobra.Command, args []string) error { return a.schema(append(args, "pipeline")[0]) },
	}
}

func (a *app) schema(of string) error {
	if err := oneOf("the schema", of, "pipeline", "events"); err != nil {
		return err
	}
	text := agents.EventSchema
	if of == "pipeline" {
		var err error
		if text, err = pipeline.LanguageSchema(); err != nil {
			return err
		}
	}
	_, err := a.stdout.Write(text)
	return err
}
