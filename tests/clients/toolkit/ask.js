// Asks a service by druid-query-toolkit, as the web console does; prints one JSON line per question.
const [home, base] = process.argv.slice(2);
const { QueryRunner, Introspect, SqlQuery, SqlExpression, T, C, F, filterPatternsToExpression } = require(home);

const runner = new QueryRunner({
  inflateDateStrategy: 'fromSqlTypes',
  executor: async ({ payload, isSql, signal }) => {
    const answer = await fetch(base + (isSql ? '/druid/v2/sql' : '/druid/v2'), {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(payload),
      signal,
    });
    const data = await answer.json();
    if (!answer.ok) throw new Error(JSON.stringify(data));
    return { data, headers: Object.fromEntries(answer.headers) };
  },
});

async function ask(name, query, more) {
  try {
    const found = await runner.runQuery({ query, extraQueryContext: { sqlOuterLimit: 1001 }, ...more });
    const told = { name, rows: found.rows, columns: found.header.map(c => [c.name, c.nativeType, c.sqlType]) };
    told.dates = found.rows.length ? found.rows[0].map(cell => cell instanceof Date) : [];
    told.id = found.sqlQueryId || found.queryId;
    console.log(JSON.stringify(told));
    return found;
  } catch (error) {
    console.log(JSON.stringify({ name, error: error.message }));
  }
}

async function main() {
  const tables = await ask('tables', Introspect.getTableIntrospectionQuery());
  console.log(JSON.stringify({ name: 'decoded', rows: Introspect.decodeTableIntrospectionResult(tables) }));
  const columns = await ask('columns', Introspect.getQueryColumnIntrospectionPayload(T('clicks')));
  console.log(JSON.stringify({ name: 'kinds', rows: Introspect.decodeQueryColumnIntrospectionResult(columns) }));
  await ask('console start', 'SELECT 1337');
  const filter = filterPatternsToExpression([
    { type: 'values', column: 'page', values: ['pägé "1"', null] },
    { type: 'numberRange', column: 'added', start: 3, startBound: '[', end: 90, endBound: ')' },
    { type: 'regexp', column: 'page', regexp: '^p.*1' },
    { type: 'mvContains', column: 'tags', values: ['t0'] },
  ]);
  const built = SqlQuery.from(T('clicks'))
    .addSelect(F('TIME_FLOOR', C('__time'), 'PT6H').as('t'), { addToGroupBy: 'end' })
    .addSelect(F.count().as('n'))
    .addSelect(F.sum(C('added')).as('added'), { addToOrderBy: 'end', direction: 'DESC' })
    .changeWhereExpression(filter)
    .changeLimitValue(5);
  await ask('built', built);
  const contains = filterPatternsToExpression([{ type: 'contains', column: 'page', contains: 'GÉ' }]);
  await ask('contains', SqlQuery.from(T('clicks')).addSelect(F.count().as('n')).changeWhereExpression(contains));
  await ask('parsed', SqlQuery.parse(`
    SELECT "page", COUNT(*) FILTER (WHERE "added" > 100) AS "many", MAX("__time") AS "last" -- a remark
    FROM "druid"."clicks" WHERE "page" IS NOT NULL GROUP BY 1 HAVING COUNT(*) > 2 ORDER BY 2 DESC, 1 LIMIT 2`));
  await ask('with', SqlQuery.parse(
    'WITH w AS (SELECT page, added FROM clicks) SELECT COUNT(DISTINCT page) AS c FROM w WHERE added BETWEEN 1 AND 50'));
  await ask('native', {
    queryType: 'timeseries', dataSource: 'clicks', granularity: 'day', intervals: ['2024-01-01/2024-01-03'],
    aggregations: [{ type: 'count', name: 'n' }],
  });
  await ask('parameters', SqlExpression.parse('SELECT COUNT(*) AS n FROM clicks WHERE added < ?'), {
    queryParameters: [{ type: 'INTEGER', value: 12 }],
  });
  await ask('wrong', 'SELECT nope FROM clicks');
}

main();
