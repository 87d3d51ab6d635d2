package codex

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestStrict(t *testing.T) {
	object := func(properties, required string) string {
		return `{"type":"object","additionalProperties":false,"properties":{` + properties + `},"required":[` + required + `]}`
	}
	tests := map[string]struct {
		schema string
		want   bool
	}{
		"closed object": {object(`"a":{"type":"string"}`, `"a"`), true},
		"no properties": {object("", ""), true},
		"nested, optional as null": {
			object(`"list":{"type":"array","minItems":1,"items":`+object(`"n":{"type":["integer","null"],"minimum":0}`, `"n"`)+`}`, `"list"`), true,
		},
		"enum and description": {object(`"v":{"type":"string","enum":["approve","reject"],"description":"the verdict"}`, `"v"`), true},
		"$schema at the root":  {`{"$schema":"https://json-schema.org/draft/2020-12/schema",` + object("", "")[1:], true},
		"reference to $defs":   {`{"$defs":{"d":` + object("", "") + `},` + object(`"a":{"$ref":"#/$defs/d"}`, `"a"`)[1:], true},
		"anyOf inside":         {object(`"a":{"anyOf":[{"type":"string"},{"type":"null"}]}`, `"a"`), true},

		"open object":                {`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`, false},
		"explicitly open object":     {strings.Replace(object("", ""), "false", "true", 1), false},
		"optional property":          {object(`"a":{"type":"string"}`, ""), false},
		"open object in a list":      {object(`"l":{"type":"array","items":{"type":"object"}}`, `"l"`), false},
		"optional property in $defs": {`{"$defs":{"d":` + object(`"x":{"type":"string"}`, "") + `},` + object("", "")[1:], false},
		"list of anything":           {object(`"l":{"type":"array"}`, `"l"`), false},
		"not an object":              {`{"type":"array","items":{"type":"string"}}`, false},
		"object or null at the root": {strings.Replace(object("", ""), `"object"`, `["object","null"]`, 1), false},
		"anyOf at the root":          {`{"anyOf":[{"type":"string"}],` + object("", "")[1:], false},
		"no type":                    {object(`"a":{"description":"anything"}`, `"a"`), false},
		"true as a schema":           {object(`"a":true`, `"a"`), false},
		"unknown type":               {object(`"a":{"type":"text"}`, `"a"`), false},
		"keyword it does not take":   {object(`"a":{"type":"string","minLength":1}`, `"a"`), false},
		"oneOf":                      {object(`"a":{"oneOf":[{"type":"string"}]}`, `"a"`), false},
		"lookahead":                  {object(`"a":{"type":"string","pattern":"(?=x)"}`, `"a"`), false},
		"unknown format":             {object(`"a":{"type":"string","format":"uri"}`, `"a"`), false},
		"reference with company":     {object(`"a":{"$ref":"#","description":"x"}`, `"a"`), false},
		"reference elsewhere":        {object(`"a":{"$ref":"other.json"}`, `"a"`), false},
		"too deep":                   {nested(maxSchemaDepth), false},
		"deep":                       {nested(maxSchemaDepth - 1), true},
		"not JSON":                   {`{"type":"object",}`, false},
		"too long":                   {object(`"a":{"type":"string","description":"`+strings.Repeat("x", maxSchemaBytes)+`"}`, `"a"`), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := strict(json.RawMessage(tt.schema)); got != tt.want {
				t.Errorf("strict(%.300s) = %v", tt.schema, got)
			}
		})
	}
}

// nested is an object with n levels below it.
func nested(n int) string {
	inner := `{"type":"string"}`
	if n > 1 {
		inner = nested(n - 1)
	}
	return `{"type":"object","additionalProperties":false,"properties":{"a":` + inner + `},"required":["a"]}`
}
