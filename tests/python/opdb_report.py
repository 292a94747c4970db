import sys, time, collections, os, pickle
sys.path.insert(0, os.path.dirname(__file__))
import opdb, faulthandler
faulthandler.enable()
names = sys.argv[1:]
all_ = opdb.entries()
passed, failed, times = [], {}, []
for name, op in all_.items():
    if names and not any(n == name or n.endswith('*') and name.startswith(n[:-1]) for n in names): continue
    t=time.time()
    try:
        problems,count=opdb.check_entry(op)
        problems=list(problems)
    except Exception as e:
        import traceback; traceback.print_exc()
        problems=[f'harness: {type(e).__name__} {e}']
    times.append((time.time()-t,name))
    if problems: failed[name]=problems
    else: passed.append(name)
    if names:
        print(name,count,'ok' if not problems else len(problems))
        for p in problems[:12]: print('    ',p[:300])
print(len(passed),'of',len(passed)+len(failed))
if not names:
    for n,p in failed.items(): print(f'{n} ({len(p)}): {p[0][:250]}')
times.sort(reverse=True); print(sum(t for t,_ in times), times[:10])
if not names: pickle.dump((passed,failed,times),open('/tmp/w/opdbx/last.pkl','wb'))
