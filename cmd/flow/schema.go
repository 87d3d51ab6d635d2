package main

import (
	"github.com/spf13/cobra"

	"flow/agents"
	"flow/pipeline"
)

func (a *app) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema [pipeline|config|events|rpc]",
		Short: "Print the JSON Schema of pipelines, configurations or events",
		Long: "schema prints the JSON Schema of pipeline files, which editors use to complete and check them, with\n" +
			"`config` that of configurations, with `events` that of the unified events, and with `rpc` an\n" +
			"OpenRPC document of what flow rpc and flow serve speak.",
		Example: "  flow schema > pipeline.schema.json\n" +
			"  # then, in the first line of a pipeline:\n" +
			"  # yaml-language-server: $schema=pipeline.schema.json",
		Args: arguments(0, 1, "`pipeline`, `config`, `events` or `rpc`"),
		RunE: func(_ *cobra.Command, args []string) error { return a.schema(append(args, "pipeline")[0]) },
	}
}

func (a *app) schema(of string) error {
	if err := oneOf("the schema", of, "pipeline", "config", "events", "rpc"); err != nil {
		return err
	}
	text, err := agents.EventSchema, error(nil)
	switch of {
	case "pipeline":
		text, err = pipeline.LanguageSchema()
	case "config":
		text, err = pipeline.ConfigSchema()
	case "rpc":
		text, err = a.newHost("").server().Schema()
	}
	if err == nil {
		_, err = a.out("json").Write(text)
	}
	return err
}
