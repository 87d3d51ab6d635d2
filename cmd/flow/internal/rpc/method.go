package rpc

import (
	"encoding/json"
	"reflect"
)

// A Method is one that clients may call.
type Method struct {
	Name string
	Doc  string // what it does, in a sentence or some
	// Inline methods are quick, and are done in the order of the messages. The others of one
	// client run beside each other.
	Inline bool

	params, result reflect.Type
	call           func(*Call, json.RawMessage) (any, error)
}

// A Call is a request that is being answered.
type Call struct {
	Session *Session
	after   []func()
}

// After has fn called, if the call succeeds, when the answer to it was sent.
func (c *Call) After(fn func()) { c.after = append(c.after, fn) }

// NewMethod makes a method of a function. P and R are structs; their tags are the schema.
func NewMethod[P, R any](name, doc string, do func(*Call, P) (R, error)) Method {
	return Method{
		Name: name, Doc: doc, params: reflect.TypeFor[P](), result: reflect.TypeFor[R](),
		call: func(c *Call, params json.RawMessage) (any, error) {
			var p P
			if err := decode(params, &p); err != nil {
				return nil, err
			}
			return do(c, p)
		},
	}
}
