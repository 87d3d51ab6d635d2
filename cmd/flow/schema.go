package main

import (
	"github.com/spf13/cobra"

	"flow/agents"
	"flow/pipeline"
)

func (a *app) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema [pipeline|config|events]",
		Short: "Print the JSON Schema of pipelines, configurations or events",
		Long: "schema prints the JSON Schema of pipeline files, which editors use to complete and check them, with\n" +
			"`config` that of configurations, or with `events` that of the unified events.",
		Example: "  flow schema > pipeline.schema.json\n" +
			"  # then, in the first line of a pipeline:\n" +
			"  # yaml-language-server: $schema=pipeline.schema.json",
		Args: arguments(0, 1, "`pipeline`, `config` or `events`"),
		RunE: func(_ *cobra.Command, args []string) error { return a.schema(append(args, "pipeline")[0]) },
	}
}

func (a *app) schema(of string) error {
	if err := oneOf("the schema", of, "pipeline", "config", "events"); err != nil {
		return err
	}
	text, err := agents.EventSchema, error(nil)
	switch of {
	case "pipeline":
		text, err = pipeline.LanguageSchema()
	case "config":
		text, err = pipeline.ConfigSchema()
	}
	if err == nil {
		_, err = a.stdout.Write(text)
	}
	return err
}
