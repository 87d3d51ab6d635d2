package agents

import "testing"

func TestAwaited(t *testing.T) {
	for head, want := range map[string]bool{
		`{"jsonrpc":"2.0","id":7,"method":"a","params":{"text":"xx`:      true,
		`{"method":"a","id":"xxxxxxxx`:                                   true, // cut in the id itself
		`{"id":1,"result":{"x":"`:                                        true,
		`{"jsonrpc":"2.0","method":"item/completed","params":{"id":"xx`:  false,
		`{"type":"control_request","request_id":"xxx`:                    true,
		`{"type":"control_response","response":{"x":"`:                   true,
		`{"type":"result","subtype":"success","result":"xxx`:             true,
		`{"type":"assistant","message":{"id":"m","content":[{"text":"xx`: false,
		`{"params":{"x":1},"id":7`:                                       false,
		`{"type":7,"id":1`:                                               false,
		`{"a":"xxxxxxxx`:                                                 false,
		`{"a"`:                                                           false,
		`{}`:                                                             false,
		`[{"id":1,`:                                                      false,
		`xxxxxxxxx`:                                                      false,
		``:                                                               false,
	} {
		if got := awaited([]byte(head)); got != want {
			t.Errorf("awaited(%s) = %t", head, got)
		}
	}
}
