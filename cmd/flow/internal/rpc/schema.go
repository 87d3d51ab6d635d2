package rpc

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"time"
)

// A News is a notification that the server sends, for the schema.
type News struct {
	Name, Doc string
	params    reflect.Type
}

// Notifications are all that a server sends.
func Notifications() []News {
	return []News{
		{AgentMessage, "The agent, or its user, says something.", reflect.TypeFor[MessageParams]()},
		{AgentThinking, "The model thinks aloud.", reflect.TypeFor[ThinkingParams]()},
		{AgentToolCall, "The agent calls a tool.", reflect.TypeFor[ToolCallParams]()},
		{AgentToolResult, "A call of a tool has ended. There is one for each agent_tool_call.", reflect.TypeFor[ToolResultParams]()},
		{AgentPermission, "A call waits for a person: agent/respond answers. It is a state and not an event: a client that connects again is told again.", reflect.TypeFor[PermissionParams]()},
		{AgentComplete, "A turn of an agent has ended well.", reflect.TypeFor[CompleteParams]()},
		{AgentError, "A turn has failed, or the agent reports an error and goes on.", reflect.TypeFor[ErrorParams]()},
		{AgentStatus, "Other news of the agent.", reflect.TypeFor[StatusParams]()},
		{RunQuestion, "An ask step waits for a person: agent/respond answers. Like agent_permission it is told again.", reflect.TypeFor[Question]()},
		{RunComplete, "The run has ended, and with it the subscription.", reflect.TypeFor[RunCompleteParams]()},
		{RunEvent, "A unified event as it is stored, for those who want them.", reflect.TypeFor[RunEventParams]()},
	}
}

// Schema is an OpenRPC document of all methods. The notifications, which OpenRPC does not
// know, are in x-notifications, in the same form.
func (s *Server) Schema() ([]byte, error) {
	d := describer{defs: map[string]any{}}
	methods := []any{}
	for _, m := range s.Methods() {
		methods = append(methods, object{
			{"name", m.Name},
			{"description", m.Doc},
			{"paramStructure", "by-name"},
			{"params", d.params(m.params)},
			{"result", object{{"name", "result"}, {"schema", d.schema(m.result)}}},
		})
	}
	news := []any{}
	for _, n := range Notifications() {
		news = append(news, object{{"name", n.Name}, {"description", n.Doc}, {"params", d.params(n.params)}})
	}
	errorSchema := d.schema(reflect.TypeFor[Error]())
	text, err := marshal(object{
		{"openrpc", "1.3.2"},
		{"info", object{{"title", "flow rpc"}, {"version", strconv.Itoa(ProtocolVersion)}, {"description", "Programs drive flow: JSON-RPC 2.0 over stdio, HTTP and WebSocket."}}},
		{"methods", methods},
		{"x-notifications", news},
		{"components", object{{"schemas", d.defs}, {"errors", object{{"Error", errorSchema}}}}},
	})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = json.Indent(&b, text, "", "  ")
	return append(b.Bytes(), '\n'), err
}

// An object is a JSON object whose members have an order.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON keeps the order.
func (o object) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		name, err := marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := marshal(m.value)
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, name...), ':'), value...)
	}
	return append(b, '}'), nil
}

// A describer makes JSON Schemas of Go types.
type describer struct{ defs map[string]any }

// params are the members of a struct in OpenRPC's form.
func (d describer) params(t reflect.Type) []any {
	all := []any{}
	if t.Kind() != reflect.Struct {
		return all
	}
	for _, f := range fields(t) {
		one := object{{"name", f.name}, {"required", f.required}, {"schema", d.field(f)}}
		if f.doc != "" {
			one = append(one, member{"description", f.doc})
		}
		all = append(all, one)
	}
	return all
}

// field is the schema of a member, with the words that are allowed.
func (d describer) field(f field) object {
	s := d.schema(f.typ)
	if len(f.enum) > 0 {
		s = append(s, member{"enum", f.enum})
	}
	return s
}

// schema is the schema of a type. Those of named structs are definitions.
func (d describer) schema(t reflect.Type) object {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch kind := kindOf(t); {
	case kind == "":
		return object{}
	case t == reflect.TypeFor[time.Time]():
		return object{{"type", kind}, {"format", "date-time"}}
	case t.Kind() == reflect.Slice:
		return object{{"type", kind}, {"items", d.schema(t.Elem())}}
	case t.Kind() == reflect.Map:
		return object{{"type", kind}, {"additionalProperties", d.schema(t.Elem())}}
	case t.Kind() != reflect.Struct:
		return object{{"type", kind}}
	case t.Name() == "":
		return d.structure(t)
	}
	if _, known := d.defs[t.Name()]; !known {
		d.defs[t.Name()] = nil // it may hold itself
		d.defs[t.Name()] = d.structure(t)
	}
	return object{{"$ref", "#/components/schemas/" + t.Name()}}
}

func (d describer) structure(t reflect.Type) object {
	properties, required := object{}, []string{}
	for _, f := range fields(t) {
		s := d.field(f)
		if f.doc != "" {
			s = append(s, member{"description", f.doc})
		}
		properties = append(properties, member{f.name, s})
		if f.required {
			required = append(required, f.name)
		}
	}
	s := object{{"type", "object"}, {"properties", properties}}
	if len(required) > 0 {
		s = append(s, member{"required", required})
	}
	return s
}
