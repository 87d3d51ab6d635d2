package pipeline
import ("testing";"os";"encoding/json";"fmt")
func TestTry(t *testing.T){
 o:=Options{Agents: map[string]AgentInfo{"claude":{true,true},"codex":{true,false},"gemini":{true,false}}}
 p,w,err:=Load("testdata/plans/review.yaml",o)
 for _,x:=range w { fmt.Println(x) }
 if es,ok:=err.(Errors);ok { src,_:=os.ReadFile("testdata/plans/review.yaml"); Format(os.Stdout,es,src); return}
 fmt.Println(err)
 b,_:=json.MarshalIndent(p,""," "); fmt.Println(string(b))
 r,err:=NewRenderer(p,Funcs{}); fmt.Println(r!=nil,err)
 in,err:=p.BindInputs(map[string]string{"max":"7"},nil); fmt.Println(in,err)
 s,err:=r.Script(*p.Step("report").Run, Data{"inputs":in,"steps":map[string]any{"again":map[string]any{"text":"$(id)"}}}); fmt.Println(s,err)
}
