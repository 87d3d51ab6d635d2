package main

import (
	"github.com/spf13/cobra"

	"flow/agents"
)

func (a *app) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema events",
		Short: "Print the JSON Schema of a format of flow's",
		Args:  arguments(1, 1, "the name of a format: events"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := oneOf("schema", args[0], "events"); err != nil {
				return err
			}
			_, err := a.stdout.Write(agents.EventSchema)
			return err
		},
	}
}
