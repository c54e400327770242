import java.sql.Array;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;

/** Asks a service by its JDBC driver what the test wants to know; prints "name: value" lines. */
public final class Probe {
  private static void tell(String name, Object value) {
    System.out.println(name + ": " + value);
  }

  private static List<List<Object>> rows(ResultSet found) throws SQLException {
    List<List<Object>> all = new ArrayList<>();
    int columns = found.getMetaData().getColumnCount();
    while (found.next()) {
      List<Object> row = new ArrayList<>();
      for (int at = 1; at <= columns; at++) {
        Object value = found.getObject(at);
        row.add(value instanceof Array ? Arrays.toString((Object[]) ((Array) value).getArray()) : value);
      }
      all.add(row);
    }
    return all;
  }

  private static String types(ResultSetMetaData told) throws SQLException {
    List<String> all = new ArrayList<>();
    for (int at = 1; at <= told.getColumnCount(); at++) {
      all.add(told.getColumnLabel(at) + " " + told.getColumnTypeName(at) + " " + told.getColumnType(at));
    }
    return all.toString();
  }

  private static void statements(Connection connection) throws SQLException {
    try (Statement statement = connection.createStatement()) {
      ResultSet found = statement.executeQuery(
          "SELECT __time, CAST(__time AS DATE) AS d, page, tags, added, price, weight, added > 1 AS b,"
              + " ARRAY[added, 7] AS a FROM clicks WHERE added IN (2, 9) ORDER BY __time");
      tell("types", types(found.getMetaData()));
      tell("rows", rows(found));
      found = statement.executeQuery("SELECT __time FROM clicks ORDER BY __time LIMIT 1");
      found.next();
      tell("timestamp", found.getTimestamp(1).getTime() + " " + found.getString(1) + " " + found.getLong(1));
      found = statement.executeQuery("SELECT SUM(n), COUNT(*) FROM numbers");
      found.next();
      tell("sum", found.getLong(1) + " of " + found.getInt(2));
      statement.setFetchSize(700);
      found = statement.executeQuery("SELECT n FROM numbers ORDER BY n");
      long expected = 0;
      while (found.next()) {
        if (found.getLong(1) != expected++) {
          throw new IllegalStateException("row " + expected + " is " + found.getLong(1));
        }
      }
      tell("paged", expected);
      statement.setMaxRows(5);
      tell("max rows", rows(statement.executeQuery("SELECT n FROM numbers ORDER BY n DESC")));
    }
  }

  private static void prepared(Connection connection) throws SQLException {
    String sql = "SELECT page, added, price FROM clicks WHERE added >= ? AND added < ? AND (page = ? OR ? IS NULL)"
        + " AND __time < ? AND price <= ? ORDER BY added";
    try (PreparedStatement statement = connection.prepareStatement(sql)) {
      tell("parameters", statement.getParameterMetaData().getParameterCount());
      tell("prepared types", types(statement.getMetaData()));
      for (String page : new String[] {"p\u00e4g\u00e9 \"2\"", null}) {
        statement.setLong(1, 0);
        statement.setInt(2, 4);
        statement.setString(3, page);
        statement.setString(4, page);
        statement.setTimestamp(5, new Timestamp(1704067200000L + 2 * 600000L + 1));
        statement.setDouble(6, 99.5);
        tell("prepared " + (page != null), rows(statement.executeQuery()));
      }
    }
    try (PreparedStatement statement = connection.prepareStatement(
        "SELECT COUNT(*) FROM clicks WHERE CAST(__time AS DATE) = ?")) {
      statement.setDate(1, new Date(1704067200000L));
      tell("by day", rows(statement.executeQuery()));
    }
  }

  private static void metadata(Connection connection) throws SQLException {
    DatabaseMetaData told = connection.getMetaData();
    tell("product", told.getDatabaseProductName());
    tell("catalogs", rows(told.getCatalogs()));
    tell("schemas", rows(told.getSchemas()));
    tell("table types", rows(told.getTableTypes()));
    tell("tables", rows(told.getTables("druid", "druid", "%", null)));
    tell("one table", rows(told.getTables(null, "druid", "click_", new String[] {"TABLE"})));
    tell("system tables", rows(told.getTables(null, "sys", "seg%", new String[] {"SYSTEM_TABLE"})).size());
    ResultSet columns = told.getColumns(null, "druid", "clicks", "%");
    List<String> named = new ArrayList<>();
    while (columns.next()) {
      named.add(columns.getString("COLUMN_NAME") + " " + columns.getString("TYPE_NAME") + " "
          + columns.getInt("DATA_TYPE") + " " + columns.getInt("ORDINAL_POSITION") + " " + columns.getInt("NULLABLE"));
    }
    tell("columns", named);
    tell("type info", rows(told.getTypeInfo()).size());
    tell("functions", told.getNumericFunctions().contains("ABS"));
  }

  private static void failures(String url) throws SQLException {
    try (Connection connection = DriverManager.getConnection(url); Statement statement = connection.createStatement()) {
      for (String wrong : new String[] {"SELECT nope FROM clicks", "SELEC 1", "DROP TABLE clicks"}) {
        try {
          statement.executeQuery(wrong);
          tell("no error", wrong);
        } catch (SQLException error) {
          tell("error", error.getMessage().replace('\n', ' '));
        }
      }
      tell("after errors", rows(statement.executeQuery("SELECT COUNT(*) FROM clicks")));
    }
    List<Connection> many = new ArrayList<>();
    try {
      for (int at = 0; at < 20; at++) {
        many.add(DriverManager.getConnection(url));
        many.get(at).createStatement();
      }
      tell("no bound", many.size());
    } catch (SQLException | RuntimeException error) {
      tell("too many", many.size() + " " + error.getMessage().replace('\n', ' '));
    } finally {
      for (Connection one : many) {
        one.close();
      }
    }
  }

  public static void main(String[] arguments) throws Exception {
    for (String url : arguments) {
      tell("begin", url);
      ask(url);
    }
  }

  private static void ask(String url) throws SQLException {
    Properties properties = new Properties();
    properties.put("timeZone", "UTC");
    properties.put("sqlTimeZone", "UTC");
    try (Connection connection = DriverManager.getConnection(url, properties)) {
      statements(connection);
      prepared(connection);
      metadata(connection);
    }
    Properties elsewhere = new Properties();
    elsewhere.put("timeZone", "America/Los_Angeles");
    elsewhere.put("sqlTimeZone", "America/Los_Angeles");
    try (Connection connection = DriverManager.getConnection(url, elsewhere);
        PreparedStatement statement = connection.prepareStatement("SELECT __time FROM clicks WHERE __time = ?")) {
      statement.setTimestamp(1, new Timestamp(1704067200000L));
      ResultSet found = statement.executeQuery();
      tell("elsewhere", found.next() + " " + found.getTimestamp(1).getTime() + " " + found.getString(1));
    }
    failures(url);
    tell("end", true);
  }
}
