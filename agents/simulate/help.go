package simulate

// Help describes the items of FLOW_SIMULATE, for documentation and messages.
const Help = `FLOW_SIMULATE says what a simulated agent does besides answering: items, separated
by semicolons or commas. A separator inside a value needs no escape unless an item
follows it. FLOW_SIMULATE_CLAUDE, _CODEX, _GEMINI, _ACP, _OPENCODE … go before it, each
for that agent.

  text=TEXT             answer TEXT
  json=JSON             answer JSON, whatever the schema says
  badschema             answer against the schema
  no                    answer false where the schema has a boolean
  ids                   name the session and the turn in the answer
  big=SIZE              answer with one line of that many bytes
  tokens=IN:OUT         use so many tokens

  edit=PATH[:TEXT]      create the file, or append to it, with an editing tool; {session} and
                        {turn} in PATH and TEXT are the session's id and its turn's number
  run=COMMAND           run COMMAND with the shell tool

  fail=CAUSE            fail as the CLI does for auth, billing, rate_limit, usage_limit,
                        overloaded, network, server, context, budget, max_turns,
                        max_output, refusal, model_not_found or invalid_request
  crash[=SIGNAL]        die by a signal (SEGV) in the middle of the stream
  exit=N                end with that status in the middle of the stream
  silent                end with status 0 and without a result
  rubbish               print lines that are no JSON among the others
  stall=DURATION        print nothing for that long once the session has started
  delay=DURATION        pause that long before every line
  orphan[=DURATION]     leave a process behind that lives that long (1m)
  holder[=DURATION]     leave one behind that holds standard output and error open (1m)
  daemon[=DURATION]     leave one behind in a session of its own, its parent gone (1m)
  deaf                  take no notice of signals, nor of a client that interrupts
  status=N              end with that status after the answer or the failure

  stderr=SIZE           print that many bytes on standard error
  flood[=SIZE]          print one line of that many bytes that is no JSON; without a size
                        it has no end
  events=SIZE           say that many things before the answer
  nul, invalid-utf8     say something in which these bytes stand as they are
  bom                   begin the output with a byte order mark
  no-init, late-init    print the first lines never, or after the result
  repeat-result         print the last line of the result twice
  cut                   end in the middle of the last line; late-update gives one after
                        the result

  asks                  ask for leave to make each call, although the flags would not have it
  question              ask the user to choose one of two
  unknown-request       send a request of a kind that nobody knows
  duplicate-id          send every request twice, with the same id
  id0                   number the requests from 0, as text
  withdraw              take every request back before it is answered
  die-asking            die by a signal while a request waits for its answer
  late-update           say something after the end of the turn

The items from asks to die-asking are for the protocols in which an agent asks its client.
They, badschema, and the items from fail to cut except delay, may end in @N, and then hold
for the first N turns of the session only, or in @N:KEY, and then hold for the first N
processes that have an item with that key. badschema=N is badschema@N. A SIZE may end in
K, M or G.
no@N holds for the first N turns of the session too, and no@N:KEY for the first N sessions
in the same directory that answer with a boolean: a turn that was interrupted and goes on
in its session gives the answer that it would have given.

Where the agent asks its client, a call is made only once it is allowed, and with the
input that the answer gives it. Tools obey the flags of the real CLI: a turn that may not write does not write. There
is no sandbox to hold a command, so a read-only Codex turn runs none. The agents that
speak ACP ask about every edit and command; a command of "use: exec" asks nobody, and
prints its answer as text.
Codex has no budget and no turn limit to fail by, and Gemini no budget. Gemini
reports max_output as a success with a shortened answer, as the real one does.
Codex waits for the network for ever unless its flags bound the retries.
`
